#include "properties/case/features/domain.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

#include "kernels/contract/problem_fields.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/places/geometry.h"
#include "properties/case/places/layouts.h"
#include "properties/case/places/planted_rank.h"
#include "properties/case/words.h"
#include "reference/semantics.h"

namespace attnfuzz {

namespace {

constexpr int64_t kMostAlign = 256;  // alignment of an arena's slots

// True if align_bytes applies to a tensor's strides as well as to its address.
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
  const std::array<int64_t, 4> whole = stored_size(c.problem, t);
  int64_t step = 1;  // of a dense tensor
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
  // The address of a tensor is that of element 0. With a negative stride the other elements lie below it.
  l.backwards &= aligns_rows(domain, t) ? 7 : 0;
  g = geometry(c, t);
  if (g && !address_lies_within(domain, c, t, *g)) l.placement = Placement::kGuarded;
}

}  // namespace

void lay_within(const attn_domain& domain, Case& c) {
  if (domain.layout == ATTN_LAYOUT_ANY && domain.align_bytes == 0) return;
  // If dO is stored once for all columns, they are not contiguous, and a dense dO has no stride of 0.
  if (domain.layout != ATTN_LAYOUT_ANY) c.dout_repeated.column = false;
  if (domain.layout == ATTN_LAYOUT_DENSE) c.dout_repeated = {};
  for (const TensorSpec& spec : kTensors) {
    if (spec.strided() && spec.role != Role::kScratch) lay_within(domain, c, spec.id);
  }
}

bool lies_within(const attn_domain& domain, const Case& c) {
  if (domain.layout == ATTN_LAYOUT_ANY && domain.align_bytes == 0) return true;
  Case there = c;
  lay_within(domain, there);
  return there == c;
}

namespace {

// Chooses a size: given the sizes that the domain allows and the current size n, returns an allowed size.
using Place = std::function<int64_t(const attn_sizes& sizes, int64_t n)>;

// The number of query heads must be a multiple of the group. If it is one, and the domain has both, they stay.
// If not, the nearest fitting number of heads is taken, or, if there is none, another group of the domain.
void fit_heads(const attn_domain& domain, int64_t heads, int64_t group, Problem& p) {
  const auto couples = [&](int64_t h, int64_t g) {
    return h % g == 0 && holds(domain.heads_q, h) && holds(domain.group, g);
  };
  constexpr int64_t kMostGroup = 1024;
  group = std::max<int64_t>(group, 1);
  if (!couples(heads, group)) {
    const auto divided = intersection(domain.heads_q, {group, 0, group, 0, {}});
    if (const int64_t near = divided ? nearest(*divided, heads) : 0; near > 0 && couples(near, group)) {
      heads = near;
    } else {
      group = std::min({group, heads, kMostGroup});
      while (group > 1 && !couples(heads, group)) --group;
      for (int64_t g = 1; g <= std::min(heads, kMostGroup) && !couples(heads, group); ++g) group = g;
    }
  }
  p.heads_kv = std::max<int64_t>(heads / group, 1);
  p.heads_q = heads % group == 0 ? heads : p.heads_kv * group;
}

void place_sizes(const attn_domain& domain, const Place& place, bool keeps_equal, Problem& p) {
  const auto follow = [&](const attn_sizes& sizes, bool must, bool equal, int64_t first, int64_t second) {
    return must || (keeps_equal && equal && holds(sizes, first)) ? first : place(sizes, second);
  };
  p.batch = place(domain.batch, p.batch);
  const int64_t group = place(domain.group, p.heads_kv > 0 ? p.heads_q / p.heads_kv : 1);
  fit_heads(domain, place(domain.heads_q, std::max<int64_t>(p.heads_q, 1)), group, p);
  const bool lengths = p.seq_q == p.seq_k, dims = p.dim_qk == p.dim_v;
  p.seq_k = place(domain.seq_k, p.seq_k);
  p.seq_q = follow(domain.seq_q, domain.equal_lengths, lengths, p.seq_k, p.seq_q);
  const bool usual = p.scale == 1.0f / std::sqrt(static_cast<float>(p.dim_qk));
  p.dim_qk = place(domain.dim_qk, p.dim_qk);
  p.dim_v = follow(domain.dim_v, domain.equal_dims, dims, p.dim_qk, p.dim_v);
  if (domain.usual_scale || usual) p.scale = 1.0f / std::sqrt(static_cast<float>(p.dim_qk));
}

void place_order(const attn_domain& domain, Problem& p) {
  if (domain.causal) p.causal = domain.causal == 2;
  // If keys stand for blocks, the diagonal counts positions, and there are more of these than keys.
  const bool unlike =
      p.seq_q != p.seq_k || p.seq_q != most_positions(p, p.seq_k) || p.key_lengths || p.packed_q || p.packed_k;
  if (domain.align && unlike) p.align = domain.align - 1;
}

void fit_rest(const attn_domain& domain, Case& c) {
  Problem& p = c.problem;
  entries_within(domain, p);
  const uint32_t taken = domain.dtypes & 7;
  if (taken != 0 && !(taken >> p.dtype & 1)) set_dtype(c, std::countr_zero(taken));
  place_order(domain, p);
  if (domain.lse) c.want_lse = domain.lse == 2;
  tidy(c);
  lay_within(domain, c);
}

// The largest values that a range without an upper end is drawn to. kLongest: 16 bits cannot count it.
constexpr int64_t kLongest = 65606, kMostHeads = 128;

// A size of a domain, and how far it is drawn: a range that begins beyond `reach` is drawn to `farthest`.
struct DomainSize {
  const char* name;
  attn_sizes attn_domain::* sizes;
  int64_t reach, farthest = reach;
};
constexpr DomainSize kDomainSizes[] = {
    {"batch", &attn_domain::batch, kMostHeads},
    {"heads_q", &attn_domain::heads_q, kMostHeads},
    {"heads_q / heads_kv", &attn_domain::group, kMostHeads},
    {"seq_q", &attn_domain::seq_q, kLongest},
    {"seq_k", &attn_domain::seq_k, kLongest},
    {"dim_qk", &attn_domain::dim_qk, contract::kUsualDims, contract::kMostDims},
    {"dim_v", &attn_domain::dim_v, contract::kUsualDims, contract::kMostDims}};

int64_t reach_of(const attn_domain& domain, const attn_sizes& sizes) {
  const auto size =
      std::ranges::find(kDomainSizes, &sizes, [&](const DomainSize& size) { return &(domain.*size.sizes); });
  return sizes.least > size->reach ? size->farthest : size->reach;
}

}  // namespace

bool takes(const attn_domain& domain, const Problem& p) {
  Problem inside = p;
  fit_sizes(domain, inside);
  place_order(domain, inside);
  return inside == p && has_entries_within(domain, p);
}

void entries_within(const attn_domain& domain, Problem& p) {
  if (!domain.equal_lengths || p.paging || (p.features & ATTN_FEATURE_APPEND) != 0) return;
  if (!p.packed_q && !p.packed_k) return;
  if (!p.packed_q) p.packed_q = p.packed_k;
  if (!p.packed_k) p.packed_k = p.packed_q;
  p.packed_k->lengths = p.packed_q->lengths;
}

bool has_entries_within(const attn_domain& domain, const Problem& p) {
  Problem inside = p;
  entries_within(domain, inside);
  return inside == p;
}

void fit_sizes(const attn_domain& domain, Problem& p) { place_sizes(domain, nearest, false, p); }

void fit(const attn_domain& domain, Case& c) {
  fit_sizes(domain, c.problem);
  fit_rest(domain, c);
}

namespace {

// True if Operation::shape() decides whether the case is causal.
bool is_ordered_by_shape(const Case& c) { return c.problem.selects() || c.problem.chooses(); }

// nsa_select and nsa_compress: moves the number of heads into the domain, and the rows of a compression.
void place_rows(const attn_domain& domain, Case& c) {
  Problem& p = c.problem;
  const int64_t heads = p.heads_q, rows = p.seq_q;
  if (!holds(domain.heads_q, heads)) p.heads_q = p.heads_kv = nearest(domain.heads_q, heads);
  if (p.compresses()) {
    if (domain.equal_lengths) p.seq_q = p.seq_k;
    if (!holds(domain.seq_q, p.seq_q)) p.seq_q = nearest(domain.seq_q, p.seq_q);
  }
  if (p.heads_q == heads && p.seq_q == rows) return;
  if (p.packed_q) {
    for (int64_t& length : p.packed_q->lengths) length = std::min(length, p.seq_q);
  }
  tidy(c);
  for (const TensorSpec& spec : kTensors) {
    if (spec.strided()) drop_misfits(c, {spec.id});
  }
  lay_within(domain, c);
}

// nsa_score: moves the number of compressed keys and the scale into the domain. Operation::shape() draws both
// anew.
void place_scores(const attn_domain& domain, Case& c) {
  Problem& p = c.problem;
  const int64_t keys = p.seq_k, most_blocks = std::max<int64_t>(p.blocks(), 16);
  if (domain.equal_lengths) p.seq_k = p.seq_q;
  if (!holds(domain.seq_k, p.seq_k)) p.seq_k = nearest(domain.seq_k, p.seq_k);
  if (domain.usual_scale) p.scale = 1.0f / std::sqrt(static_cast<float>(p.dim_qk));
  if (p.seq_k == keys) return;
  while (p.blocks() > most_blocks) p.selection.block *= 2;  // more keys must not mean too many scores
  tidy(c);
  drop_misfits(c, {TensorId::kK, TensorId::kBlockScores});
  lay_within(domain, c);
}

}  // namespace

void shaped_within(const attn_domain& domain, Case& c) {
  const Problem& p = c.problem;
  if (p.compresses() || (p.chooses() && !p.scores_blocks())) place_rows(domain, c);
  if (!is_ordered_by_shape(c)) return;
  if (p.scores_blocks()) place_scores(domain, c);
  place_order(domain, c.problem);
  tidy(c);
}

void shaped_as(const Case& drawn, Case& c) {
  if (!is_ordered_by_shape(c)) return;
  c.problem.causal = drawn.problem.causal;
  c.problem.align = drawn.problem.align;
  if (c.problem.scores_blocks()) c.problem.scale = drawn.problem.scale;
  tidy(c);
}

void draw_within(const attn_domain& domain, Rng& rng, Case& c) {
  const auto place = [&](const attn_sizes& sizes, int64_t n) {
    if (holds(sizes, n)) return n;
    const bool above = sizes.count == 0 && sizes.most > 0 && n > sizes.most;
    if (sizes.count == 0 && n >= sizes.least && !above) return nearest(sizes, n);
    // A size above the domain was drawn large on purpose, for instance to have many tiles. Half of these stay
    // large.
    attn_sizes large = sizes;
    if (above && rng.coin()) large.least = std::max(sizes.least, nearest(sizes, sizes.most / 2));
    return drawn(large, rng, reach_of(domain, sizes));
  };
  place_sizes(domain, place, true, c.problem);
  fit_rest(domain, c);
}

bool says_lengths(const attn_sizes& lengths) {
  constexpr int64_t kUsual = 512;
  return lengths.count > 0 || lengths.least > 1 || lengths.most > kUsual;
}

void draw_said(const attn_domain& domain, Rng& rng, Problem& p) {
  constexpr int64_t kPercentRange = 35;
  const auto draw = [&](const attn_sizes& sizes, int64_t n) {
    const bool length = &sizes == &domain.seq_q || &sizes == &domain.seq_k;
    const bool anew = sizes.count > 0 || (length && says_lengths(sizes) && rng.percent(kPercentRange));
    return anew ? drawn(sizes, rng, reach_of(domain, sizes)) : n;
  };
  place_sizes(domain, draw, true, p);
}

std::variant<attn_domain, std::string> narrowed(const attn_domain& a, const attn_domain& b) {
  constexpr uint32_t kFormats = 7, kUsual = 1u << ATTN_F16 | 1u << ATTN_BF16;
  attn_domain both = {};
  both.size = sizeof both;
  both.dtypes = a.dtypes & kFormats;
  if ((b.dtypes & kFormats) != 0) both.dtypes = (both.dtypes ? both.dtypes : kUsual) & b.dtypes;
  if (both.dtypes == 0 && (b.dtypes & kFormats) != 0) return "dtype: none of those declared";
  const auto meet = [](const char* name, const attn_sizes& x, const attn_sizes& y,
                       attn_sizes* to) -> std::string {
    const auto sizes = intersection(x, y);
    if (sizes) *to = *sizes;
    return sizes ? "" : cat(name, ": ", in_words(x), " and ", in_words(y));
  };
  for (const DomainSize& size : kDomainSizes) {
    if (auto why = meet(size.name, a.*size.sizes, b.*size.sizes, &(both.*size.sizes)); !why.empty()) return why;
  }
  both.equal_lengths = a.equal_lengths || b.equal_lengths;
  both.equal_dims = a.equal_dims || b.equal_dims;
  both.usual_scale = a.usual_scale || b.usual_scale;
  if (both.equal_lengths) {
    if (auto why = meet("equal lengths", both.seq_q, both.seq_k, &both.seq_k); !why.empty()) return why;
    both.seq_q = both.seq_k;
  }
  if (both.equal_dims) {
    if (auto why = meet("equal head dimensions", both.dim_qk, both.dim_v, &both.dim_qk); !why.empty())
      return why;
    both.dim_v = both.dim_qk;
  }
  for (const auto& [name, field] : {std::pair{"causal", &attn_domain::causal},
                                    {"align", &attn_domain::align},
                                    {"lse", &attn_domain::lse}}) {
    if (a.*field != 0 && b.*field != 0 && a.*field != b.*field)
      return cat(name, ": the two domains require different values");
    both.*field = std::max(a.*field, b.*field);
  }
  both.layout = a.layout == ATTN_LAYOUT_DENSE || b.layout == ATTN_LAYOUT_DENSE ? ATTN_LAYOUT_DENSE
                                                                               : std::max(a.layout, b.layout);
  both.align_bytes = std::max(a.align_bytes, b.align_bytes);
  if (auto why = leaves_nothing(both, ~uint64_t{0})) return *why;
  return both;
}

std::optional<std::string> leaves_nothing(const attn_domain& domain, uint64_t features) {
  constexpr int64_t kMost = int64_t{1} << 40;  // beyond any size of a case
  for (const attn_sizes* sizes : {&domain.batch, &domain.heads_q, &domain.group, &domain.seq_q, &domain.seq_k,
                                  &domain.dim_qk, &domain.dim_v}) {
    if (sizes->count < 0 || sizes->count > static_cast<int64_t>(std::size(sizes->list)))
      return "a list of " + std::to_string(sizes->count) + " sizes, which must have 0 to " +
             std::to_string(std::size(sizes->list));
    for (const int64_t n : {sizes->least, sizes->most, sizes->multiple}) {
      if (n < 0 || n > kMost)
        return "a limit of " + std::to_string(n) + ", which must be 0 to " + std::to_string(kMost);
    }
    if (sizes->most > 0 && nearest(*sizes, 0) < sizes->least)
      return "no size from " + std::to_string(sizes->least) + " to " + std::to_string(sizes->most) +
             " fits its multiple or its list";
  }
  if (domain.layout < ATTN_LAYOUT_ANY || domain.layout > ATTN_LAYOUT_INNER)
    return "a layout of " + std::to_string(domain.layout) + ", which must be 0 to " +
           std::to_string(ATTN_LAYOUT_INNER) + " (attn_layout)";
  if (domain.align_bytes != 0 && !(domain.align_bytes > 0 && domain.align_bytes <= kMostAlign &&
                                   std::has_single_bit(static_cast<uint32_t>(domain.align_bytes))))
    return "align_bytes of " + std::to_string(domain.align_bytes) +
           ", which must be 0 or a power of two up to " + std::to_string(kMostAlign);
  // Starts from the smallest case.
  Case c;
  Problem& p = c.problem;
  p.batch = p.heads_q = p.heads_kv = p.seq_q = p.seq_k = p.dim_qk = p.dim_v = 1;
  fit(domain, c);
  if (auto why = illegal(c)) return why;
  if (nearest(domain.group, p.heads_q / p.heads_kv) != p.heads_q / p.heads_kv)
    return "no number of query heads in heads_q is a multiple of an allowed heads_q / heads_kv";
  if (std::max(p.dim_qk, p.dim_v) > contract::kUsualDims && (features & ATTN_FEATURE_WIDE) == 0)
    return cat("no head dimension up to ", contract::kUsualDims,
               ", and the kernel does not take more (ATTN_FEATURE_WIDE)");
  return std::nullopt;
}

bool says_sizes(const attn_domain& domain) {
  attn_domain formats = {};
  formats.size = domain.size;
  formats.dtypes = domain.dtypes;
  return std::memcmp(&formats, &domain, sizeof domain) != 0;
}

}  // namespace attnfuzz
