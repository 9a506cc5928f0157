#include "properties/judge/shape.h"

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

std::string error_shape(const ShapeInput& input) {
  if (!consistent(input)) return "";
  bool any = false;
  for (const uint8_t bad : input.bad) any |= bad != 0;
  if (!any) return "";
  const std::string where = shape_of_places(input), what = shape_of_values(input);
  return where.empty() || what.empty() ? where + what : where + "; " + what;
}

}  // namespace attnfuzz
