#include "properties/case/places/geometry.h"

#include <algorithm>

#include "properties/case/places/packed.h"
#include "properties/case/places/planted_rank.h"

namespace attnfuzz {
namespace {

// Sizes and strides reach 2^36, so their products do not fit 64 bits.
using Wide = __int128;

constexpr Wide kRoom = static_cast<Wide>(kSlotBytes) - 2 * kMaxRedzoneAfter;

}  // namespace

int64_t Geometry::redzone_after() const { return std::clamp<int64_t>(64 * row_bytes(), 256, kMaxRedzoneAfter); }

std::array<bool, 4> repeated(const Case& c, TensorId t) {
  const Problem& p = c.problem;
  if (once_of(t)) {
    const bool dense = !packing_of(p, t) && !in_pages(p, t);
    return {stored_once(c, t).batch && dense, stored_once(c, t).head, false, false};
  }
  if (t == TensorId::kDout) {
    const Repeated& of = c.dout_repeated;
    return {of.batch, of.head, of.query, of.column};
  }
  Broadcast all;
  if ((t == TensorId::kBias || t == TensorId::kDbias) && p.bias) all = p.bias->broadcast;
  if (t == TensorId::kMask && p.mask) all = p.mask->broadcast;
  if (t == TensorId::kSlopes && p.slopes) all.batch = !p.slopes->entries;
  if (const KvScales* scales = scales_of(p, t)) {
    const bool by_page = scales->page > 0;
    return {!scales->entries && !by_page, !scales->heads, !scales->keys && !by_page, false};
  }
  return {all.batch, all.head, all.query, false};
}

namespace {

Formats formats_of(const Problem& p) {
  return {p.dtype, p.bias ? p.bias->dtype : int32_t{ATTN_NONE}, p.sink ? p.sink->dtype : int32_t{ATTN_F16},
          p.index_dtype, p.kv8 ? dtype_of(p.kv8->format) : 0};
}

}  // namespace

int32_t dtype_of(const Problem& p, TensorId t) { return dtype_of(spec_of(t), formats_of(p)); }

int64_t element_bytes(const Problem& p, TensorId t) {
  return element_bytes(spec_of(t), formats_of(p));
}

TensorId home_of(const Case& c, TensorId t) {
  if ((c.problem.features & ATTN_FEATURE_IN_PLACE) == 0) return t;
  if (t == TensorId::kO1) return TensorId::kO;
  return t == TensorId::kLse1 && c.want_lse ? TensorId::kLse : t;
}

bool is_present(const Case& c, TensorId t) {
  const Problem& p = c.problem;
  const uint64_t sinks = p.sink ? ATTN_FEATURE_SINK : 0, slopes = p.slopes ? ATTN_FEATURE_ALIBI : 0,
                 ragged = p.packed_q || p.packed_k ? ATTN_FEATURE_RAGGED : 0, paged = p.paging ? ATTN_FEATURE_PAGED : 0,
                 narrow = p.kv8 ? ATTN_FEATURE_KV8 : 0;
  if (!in_problem(spec_of(t), p.features | sinks | slopes | ragged | paged | narrow)) return false;
  if (home_of(c, t) != t) return false;
  switch (t) {
    case TensorId::kV:
      return !c.problem.latent;
    case TensorId::kLse:
    case TensorId::kBlockScores:
      return c.want_lse;
    case TensorId::kBias:
    case TensorId::kDbias:
      return c.problem.bias.has_value();
    case TensorId::kMask:
      return c.problem.mask.has_value();
    case TensorId::kSink:
    case TensorId::kDsink:
      return c.problem.sink.has_value();
    case TensorId::kSlopes:
      return c.problem.slopes.has_value();
    case TensorId::kKeyLengths:
      return c.problem.key_lengths.has_value();
    case TensorId::kCuQ:
      return p.packed_q.has_value();
    case TensorId::kCuK:
      return p.packed_k.has_value();
    default:
      return true;
  }
}

void make_present(Case& c, TensorId t) {
  if (t == TensorId::kV) store_v_apart(c);
  if (t == TensorId::kLse || t == TensorId::kBlockScores) c.want_lse = true;
  if (t == TensorId::kMask && !c.problem.mask) c.problem.mask.emplace();
  if (t == TensorId::kBias && !c.problem.bias) c.problem.bias.emplace();
  if (t == TensorId::kSink && !c.problem.sink) c.problem.sink.emplace();
  if (t == TensorId::kSlopes && !c.problem.slopes) c.problem.slopes.emplace();
  if ((t == TensorId::kKScale || t == TensorId::kVScale) && !c.problem.kv8) set_kv8(c, Kv8{});
}

std::array<int64_t, 4> stored_size(const Problem& p, TensorId t) {
  std::array<int64_t, 4> size = logical_size(p, t);
  if (const auto& packing = packing_of(p, t))
    size[0] = 1, size[2] = packed_rows(*packing, of_queries(spec_of(t)) ? p.seq_q : p.seq_k);
  if (in_pages(p, t)) size[0] = page_count(p), size[2] = p.paging->size;
  return size;
}

std::optional<Geometry> geometry(const Case& c, TensorId t) {
  const TensorLayout& layout = c.layout[static_cast<size_t>(t)];
  Geometry g;
  g.present = is_present(c, t);
  g.element_bytes = element_bytes(c.problem, t);
  g.size = stored_size(c.problem, t);
  const std::array<bool, 4> once = repeated(c, t);
  for (int n = 0; n < 4; ++n) {
    if (once[n]) g.size[n] = std::min<int64_t>(g.size[n], 1);
  }
  const bool dense = !spec_of(t).strided();
  if (!dense) g.order = layout.order;
  if (layout.placement == Placement::kGuarded) g.offset_bytes = layout.offset * g.element_bytes;

  // Dimensions from the innermost outwards: columns first, or with `across` the last dimension of the order
  // first.
  const bool across = !dense && layout.across;
  const std::array<int, 4> outwards = across ? std::array<int, 4>{g.order[2], 3, g.order[1], g.order[0]}
                                             : std::array<int, 4>{3, g.order[2], g.order[1], g.order[0]};
  // The spread goes to the outermost dimension that has a second index.
  int outermost = -1;
  for (int n = 1; n < 4; ++n) {
    if (g.size[outwards[n]] > 1) outermost = n;
  }
  const Wide row_gap_bytes = dense ? 0 : static_cast<Wide>(layout.row_gap) * g.element_bytes;
  Wide step = dense ? 1 : layout.step, elements = 1, last = 1, gaps = 0;
  for (int n = 0; n < 4; ++n) {
    const int dimension = outwards[n];
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
    if (n == 0 && !dense) step += layout.row_gap;
    if (elements > kRoom || last > kRoom || step > kRoom * kRoom) return std::nullopt;
  }
  if (g.empty()) {
    g.touched_bytes = kRedzoneBefore + g.redzone_after();
    return g;
  }
  const Wide span = last * g.element_bytes;
  if (span + g.offset_bytes > kRoom) return std::nullopt;
  g.span_bytes = static_cast<int64_t>(span);
  for (int n = 0; n < 4; ++n) {
    if (dense || (layout.backwards >> n & 1) == 0 || g.size[n] < 2) continue;
    g.first += (g.size[n] - 1) * g.stride[n];
    g.stride[n] = -g.stride[n];
  }
  gaps += elements / g.size[outwards[0]] * std::min<Wide>(row_gap_bytes, 2 * kGapEnd);
  // A scattered tensor is filled whole.
  const Wide filled = !dense && layout.scattered() ? span : elements * g.element_bytes + gaps;
  const Wide touched = filled + g.offset_bytes + kRedzoneBefore + g.redzone_after();
  g.touched_bytes = static_cast<int64_t>(std::min<Wide>(touched, kRoom));
  return g;
}

void unpack(Case& c) {
  Problem& p = c.problem;
  if (!p.packed_q && !p.packed_k && !p.paging) return;
  if ((p.features & ATTN_FEATURE_COPY_PAGES) != 0) return;  // there is nothing but pages
  p.packed_q.reset(), p.packed_k.reset(), p.paging.reset();
  c.layout[static_cast<size_t>(TensorId::kBlockTable)] = {};
  if (!p.key_lengths && !p.selects() && !p.chooses()) p.index_dtype = ATTN_INDEX_64;
  for (const TensorSpec& spec : kTensors) {
    TensorLayout& layout = c.layout[static_cast<size_t>(spec.id)];
    if (!may_be_packed(spec) || geometry(c, spec.id)) continue;
    layout.spread = 0;
    if (!geometry(c, spec.id)) layout = {};
  }
}

int64_t step_without_spread(const Case& c, TensorId t) {
  Case close = c;
  TensorLayout& layout = close.layout[static_cast<size_t>(t)];
  layout.spread = 0;
  const std::optional<Geometry> g = geometry(close, t);
  if (!g || g->empty()) return 0;
  int64_t step = 0;
  for (const int n : {layout.order[2], layout.order[1], layout.order[0]}) {
    if (g->size[n] > 1) step = std::abs(g->stride[n]);
  }
  return step;
}

}  // namespace attnfuzz
