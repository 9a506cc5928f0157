#include "properties/case/geometry.h"

#include <algorithm>

namespace attnfuzz {
namespace {

// Sizes and strides reach 2^36, products of them do not fit 64 bits.
using Wide = __int128;

constexpr Wide kRoom = static_cast<Wide>(kSlotBytes) - 2 * kMaxGuardAfter;

}  // namespace

int64_t Geometry::guard_after() const { return std::clamp<int64_t>(64 * row_bytes(), 256, kMaxGuardAfter); }

std::array<bool, 4> repeated(const Problem& p, TensorId t) {
  Broadcast all;
  if (t == TensorId::kBias && p.bias) all = p.bias->broadcast;
  if (t == TensorId::kMask && p.mask) all = p.mask->broadcast;
  return {all.batch, all.head, all.query, false};
}

namespace {

int32_t bias_dtype(const Problem& p) { return p.bias ? p.bias->dtype : static_cast<int32_t>(ATTN_NONE); }

}  // namespace

int32_t dtype_of(const Problem& p, TensorId t) { return dtype_of(spec_of(t), p.dtype, bias_dtype(p)); }

int64_t element_bytes(const Problem& p, TensorId t) {
  return element_bytes(spec_of(t), p.dtype, bias_dtype(p));
}

bool is_present(const Case& c, TensorId t) {
  switch (t) {
    case TensorId::kLse:
      return c.want_lse;
    case TensorId::kBias:
      return c.problem.bias.has_value();
    case TensorId::kMask:
      return c.problem.mask.has_value();
    case TensorId::kKeyLengths:
      return c.problem.key_lengths.has_value();
    default:
      return true;
  }
}

std::optional<Geometry> geometry(const Case& c, TensorId t) {
  const TensorLayout& layout = c.layout[static_cast<size_t>(t)];
  Geometry g;
  g.present = is_present(c, t);
  g.element_bytes = element_bytes(c.problem, t);
  g.size = logical_size(c.problem, t);
  const std::array<bool, 4> once = repeated(c.problem, t);
  for (int n = 0; n < 4; ++n) {
    if (once[n]) g.size[n] = std::min<int64_t>(g.size[n], 1);
  }
  const bool dense = !spec_of(t).strided;
  if (!dense) g.order = layout.order;
  if (layout.placement == Placement::kGuarded) g.offset_bytes = layout.offset * g.element_bytes;

  g.stride[3] = 1;
  Wide step = static_cast<Wide>(std::max<int64_t>(g.size[3], 1)) + (dense ? 0 : layout.row_gap);
  Wide elements = g.size[3], last = std::max<int64_t>(g.size[3], 1);
  // Spread goes to the outermost dimension that has a second index.
  int outermost = -1;
  for (int n = 2; n >= 0; --n) {
    if (g.size[g.order[n]] > 1) outermost = n;
  }
  Wide gaps = 0;
  const Wide row_gap_bytes = dense ? 0 : static_cast<Wide>(layout.row_gap) * g.element_bytes;
  for (int n = 2; n >= 0; --n) {
    const int dimension = g.order[n];
    const int64_t count = g.size[dimension];
    if (n == outermost && !dense && step < layout.spread) {
      step = layout.spread;
      gaps += static_cast<Wide>(count) * 2 * kGapEnd;
    }
    if (step > kRoom) return std::nullopt;
    g.stride[dimension] = static_cast<int64_t>(step);
    elements *= count;
    if (count > 1) last += (count - 1) * step;
    step *= std::max<int64_t>(count, 1);
    if (elements > kRoom || last > kRoom || step > kRoom * kRoom) return std::nullopt;
  }
  if (g.empty()) {
    g.touched_bytes = kGuardBefore + g.guard_after();
    return g;
  }
  const Wide span = last * g.element_bytes;
  if (span + g.offset_bytes > kRoom) return std::nullopt;
  g.span_bytes = static_cast<int64_t>(span);
  gaps += elements / g.size[3] * std::min<Wide>(row_gap_bytes, 2 * kGapEnd);
  const Wide touched = elements * g.element_bytes + gaps + g.offset_bytes + kGuardBefore + g.guard_after();
  g.touched_bytes = static_cast<int64_t>(std::min<Wide>(touched, kRoom));
  return g;
}

}  // namespace attnfuzz
