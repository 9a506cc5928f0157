#include "properties/judge/shape.h"

#include <algorithm>

#include "properties/judge/shape_parts.h"

namespace attnfuzz {
namespace {

bool consistent(const ShapeInput& in) {
  if (in.batch < 0 || in.heads < 0 || in.seq_q < 0 || in.dim_v < 0) return false;
  const auto n = static_cast<size_t>(in.batch * in.heads * in.seq_q * in.dim_v);
  const auto rows = static_cast<size_t>(in.batch * in.heads * in.seq_q);
  if (!in.dead.empty() && in.dead.size() != rows) return false;
  return in.got.size() == n && in.expected.size() == n && in.bad.size() == n;
}

}  // namespace

std::vector<Shape> error_shape(const ShapeInput& input) {
  if (!consistent(input) || std::ranges::count(input.bad, 0) == std::ssize(input.bad)) return {};
  std::vector<Shape> shapes = {shape_of_places(input), shape_of_values(input)};
  std::erase_if(shapes, &Shape::empty);
  return shapes;
}

std::string text_of(const std::vector<Shape>& shapes) {
  std::string text;
  for (const Shape& shape : shapes) text += (text.empty() ? "" : "; ") + shape.text;
  return text;
}

}  // namespace attnfuzz
