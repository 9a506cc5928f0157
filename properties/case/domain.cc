#include "properties/case/domain.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "properties/case/geometry.h"
#include "properties/case/planted_rank.h"
#include "properties/case/switches.h"

namespace attnfuzz {

int64_t nearest(const attn_sizes& sizes, int64_t n) {
  if (sizes.count > 0) {
    const int64_t* const end = sizes.list + std::min<int64_t>(sizes.count, std::size(sizes.list));
    return *std::min_element(sizes.list, end, [&](int64_t a, int64_t b) {
      const int64_t x = std::abs(a - n), y = std::abs(b - n);
      return x != y ? x < y : a < b;
    });
  }
  const int64_t step = std::max<int64_t>(sizes.multiple, 1);
  n = std::max(n, sizes.least);
  if (sizes.most > 0) n = std::min(n, sizes.most / step * step);
  const int64_t up = (n + step - 1) / step * step;
  return sizes.most > 0 && up > sizes.most ? up - step : up;
}

namespace {

constexpr int64_t kMostAlign = 256;  // what slots of an arena begin at

int64_t rounded_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Whether align_bytes speaks of a tensor's strides, not of its address alone.
bool aligns_rows(const attn_domain& domain, TensorId t) {
  return domain.layout != ATTN_LAYOUT_DENSE &&
         (t == TensorId::kQ || t == TensorId::kK || t == TensorId::kV || t == TensorId::kO);
}

bool address_lies_within(const attn_domain& domain, const Case& c, TensorId t, const Geometry& g) {
  if (domain.align_bytes == 0) return true;
  const bool at_end = c.layout[static_cast<size_t>(t)].placement == Placement::kPageEnd;
  return ((at_end ? -g.span_bytes : g.offset_bytes) + g.first * g.element_bytes) % domain.align_bytes == 0;
}

bool strides_lie_within(const attn_domain& domain, const Case& c, TensorId t, const Geometry& g) {
  const std::array<int64_t, 4> whole = logical_size(c.problem, t);
  int64_t step = 1;  // of a dense one
  for (int n = 3; n >= 0; --n) {
    if (domain.layout == ATTN_LAYOUT_DENSE && g.size[n] > 1 && g.stride[n] != step) return false;
    if (domain.layout == ATTN_LAYOUT_DENSE && once_of(t) && g.size[n] != whole[n]) return false;
    step *= g.size[n];
  }
  if (domain.layout != ATTN_LAYOUT_ANY && g.size[3] > 1 && g.stride[3] != 1) return false;
  if (domain.align_bytes == 0 || !aligns_rows(domain, t)) return true;
  for (int n = 0; n < 3; ++n) {
    if (g.size[n] > 1 && g.stride[n] * g.element_bytes % domain.align_bytes != 0) return false;
  }
  return true;
}

void lay_within(const attn_domain& domain, Case& c, TensorId t) {
  std::optional<Geometry> g = geometry(c, t);
  if (!g || !g->present || g->empty()) return;
  TensorLayout& l = c.layout[static_cast<size_t>(t)];
  const int64_t step = std::max<int64_t>(domain.align_bytes / std::max<int64_t>(g->element_bytes, 1), 1);
  if (!strides_lie_within(domain, c, t, *g)) {
    if (domain.layout == ATTN_LAYOUT_DENSE) {
      l = {.offset = l.offset, .junk_unit_strides = l.junk_unit_strides, .placement = l.placement};
      if (const auto once = once_of(t)) c.once.*once = {};
    }
    if (domain.layout == ATTN_LAYOUT_INNER) l.step = 1, l.across = false, l.backwards &= ~8;
    if (aligns_rows(domain, t)) {
      const int64_t columns = logical_size(c.problem, t)[3] * l.step;
      l.across = false;
      l.row_gap = rounded_up(columns + l.row_gap, step) - columns;
      l.spread = rounded_up(l.spread, step);
    }
    g = geometry(c, t);
  }
  if (!g || address_lies_within(domain, c, t, *g)) return;
  l.offset = rounded_up(l.offset, step);
  // The address is that of the first element, which lies behind those that go backwards.
  l.backwards &= aligns_rows(domain, t) ? 7 : 0;
  g = geometry(c, t);
  if (g && !address_lies_within(domain, c, t, *g)) l.placement = Placement::kGuarded;
}

}  // namespace

void lay_within(const attn_domain& domain, Case& c) {
  if (domain.layout == ATTN_LAYOUT_ANY && domain.align_bytes == 0) return;
  for (const TensorSpec& spec : kTensors) {
    if (spec.strided && spec.role != Role::kScratch) lay_within(domain, c, spec.id);
  }
}

bool lies_within(const attn_domain& domain, const Case& c) {
  if (domain.layout == ATTN_LAYOUT_ANY && domain.align_bytes == 0) return true;
  Case there = c;
  lay_within(domain, there);
  return there == c;
}

void fit(const attn_domain& domain, Case& c) {
  Problem& p = c.problem;
  const uint32_t taken = domain.dtypes & 7;
  if (taken != 0 && !(taken >> p.dtype & 1)) set_dtype(c, std::countr_zero(taken));
  p.batch = nearest(domain.batch, p.batch);
  const int64_t group = nearest(domain.group, p.heads_kv > 0 ? p.heads_q / p.heads_kv : 1);
  p.heads_q = nearest(domain.heads_q, std::max<int64_t>(p.heads_q, 1));
  // As many heads of K and V as before, if that is in reach.
  p.heads_kv = std::max<int64_t>(p.heads_q / std::max<int64_t>(group, 1), 1);
  if (p.heads_q % p.heads_kv != 0) p.heads_q = p.heads_kv * group;
  p.seq_k = nearest(domain.seq_k, p.seq_k);
  p.seq_q = domain.equal_lengths ? p.seq_k : nearest(domain.seq_q, p.seq_q);
  const bool usual = p.scale == 1.0f / std::sqrt(static_cast<float>(p.dim_qk));
  p.dim_qk = nearest(domain.dim_qk, p.dim_qk);
  p.dim_v = domain.equal_dims ? p.dim_qk : nearest(domain.dim_v, p.dim_v);
  if (domain.usual_scale || usual) p.scale = 1.0f / std::sqrt(static_cast<float>(p.dim_qk));
  if (domain.causal) p.causal = domain.causal == 2;
  if (domain.align && (p.seq_q != p.seq_k || p.key_lengths)) p.align = domain.align - 1;
  if (domain.lse) c.want_lse = domain.lse == 2;
  tidy(c);
  lay_within(domain, c);
}

std::optional<std::string> leaves_nothing(const attn_domain& domain) {
  constexpr int64_t kMost = int64_t{1} << 40;  // further on than any size of a case
  for (const attn_sizes* sizes : {&domain.batch, &domain.heads_q, &domain.group, &domain.seq_q, &domain.seq_k,
                                  &domain.dim_qk, &domain.dim_v}) {
    if (sizes->count < 0 || sizes->count > static_cast<int64_t>(std::size(sizes->list)))
      return "a list of " + std::to_string(sizes->count) + " sizes, which has 0 to " +
             std::to_string(std::size(sizes->list));
    for (const int64_t n : {sizes->least, sizes->most, sizes->multiple}) {
      if (n < 0 || n > kMost)
        return "a limit of " + std::to_string(n) + ", which is 0 to " + std::to_string(kMost);
    }
    if (sizes->most > 0 && nearest(*sizes, 0) < sizes->least)
      return "no size from " + std::to_string(sizes->least) + " to " + std::to_string(sizes->most) +
             " that it allows";
  }
  if (domain.layout < ATTN_LAYOUT_ANY || domain.layout > ATTN_LAYOUT_INNER)
    return "a layout of " + std::to_string(domain.layout) + ", which is 0 to " +
           std::to_string(ATTN_LAYOUT_INNER) + " (attn_layout)";
  if (domain.align_bytes != 0 && !(domain.align_bytes > 0 && domain.align_bytes <= kMostAlign &&
                                   std::has_single_bit(static_cast<uint32_t>(domain.align_bytes))))
    return "align_bytes of " + std::to_string(domain.align_bytes) + ", which is 0 or a power of two up to " +
           std::to_string(kMostAlign);
  // The smallest there is.
  Case c;
  Problem& p = c.problem;
  p.batch = p.heads_q = p.heads_kv = p.seq_q = p.seq_k = p.dim_qk = p.dim_v = 1;
  fit(domain, c);
  if (auto why = illegal(c)) return why;
  if (nearest(domain.group, p.heads_q / p.heads_kv) != p.heads_q / p.heads_kv)
    return "no number of heads is one of heads_q and of so many to a KV head";
  return std::nullopt;
}

bool says_sizes(const attn_domain& domain) {
  attn_domain formats = {};
  formats.size = domain.size;
  formats.dtypes = domain.dtypes;
  return std::memcmp(&formats, &domain, sizeof domain) != 0;
}

}  // namespace attnfuzz
