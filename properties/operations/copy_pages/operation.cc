// The copy of pages copies pages of K and V within their pools (ATTN_FEATURE_COPY_PAGES), as a server does
// before it writes into a page that two sequences share.
#include "properties/operations/operation.h"

#include <algorithm>
#include <numeric>

#include "properties/case/case.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/features/storage/pools.h"
#include "properties/case/places/layouts.h"
#include "properties/operations/shape_dice.h"
#include "reference/caches.h"

namespace attnfuzz::operations {
namespace {

using enum TensorId;

constexpr TensorId kInputsOfCopies[] = {kCopies};
constexpr Output kOutputsOfCopies[] = {{.tensor = kCacheK, .kind = OutputKind::kExact},
                                       {.tensor = kCacheV, .kind = OutputKind::kExact}};

// Ignores the requested sample: all elements are compared.
Reference evaluate_exactly(const attn_problem& problem, const attn_tensors& host, const attn_plan&,
                           const Calibration&, RowSample, bool) {
  return evaluate_copies(problem, host);
}

// Draws pairs of pages in any order. A page may be the source of several pairs, and is sometimes copied to
// itself.
std::vector<PageCopy> draw_pairs(Rng& rng, int64_t pairs, int64_t pages) {
  std::vector<int64_t> order(static_cast<size_t>(pages));
  std::iota(order.begin(), order.end(), 0);
  for (size_t n = order.size(); n > 1; --n)
    std::swap(order[n - 1], order[static_cast<size_t>(rng.range(0, static_cast<int64_t>(n) - 1))]);
  const int64_t targets = std::min(pairs, std::max<int64_t>(pages - 1, 0));
  std::vector<PageCopy> copies;
  for (int64_t n = 0; n < targets; ++n) {
    const int64_t to = order[static_cast<size_t>(n)];
    const int64_t from = rng.percent(8) ? to : order[static_cast<size_t>(rng.range(targets, pages - 1))];
    copies.push_back({from, to});
  }
  return copies;
}

// A few pages, or, if pages are small, so many that their numbers exceed 16 bits.
int64_t draw_pages(Rng& rng, const Problem& p) {
  constexpr int64_t kMany = 66'000, kMostElements = int64_t{1} << 21;
  const int64_t elements = p.heads_kv * p.paging->size * (p.dim_qk + p.dim_v);
  if (rng.percent(6) && elements * kMany <= kMostElements) return kMany;
  const int64_t most = std::clamp<int64_t>(kMostElements / std::max<int64_t>(elements, 1), 2, 64);
  return std::min(most,
                  rng.weighted<int64_t>({{10, 1}, {20, 2}, {40, rng.range(3, 9)}, {30, rng.range(10, 64)}}));
}

void shape(Case& c, uint64_t kernel_features) {
  if ((c.problem.features & ATTN_FEATURE_COPY_PAGES) != 0) return;
  const Case drawn = c;
  const Problem& from = drawn.problem;
  ShapeDice rng(drawn, 2);
  Problem& p = c.problem = Problem{};
  p.dtype = from.dtype;
  p.heads_q = p.heads_kv = from.heads_kv;
  p.seq_k = 0;
  p.dim_qk = from.dim_qk, p.dim_v = from.dim_v;
  p.features = ATTN_FEATURE_COPY_PAGES | (from.features & ATTN_FEATURE_F32);
  p.paging = Paging{.size = from.paging ? from.paging->size : feature::draw_paging(rng).size};
  p.paging->spare = draw_pages(rng, p);
  const int64_t pairs = rng.weighted<int64_t>({{25, 1}, {15, 2}, {50, rng.range(3, 12)}, {10, 0}});
  c.copies = draw_pairs(rng, pairs, p.paging->spare);
  p.batch = static_cast<int64_t>(c.copies.size());
  if ((kernel_features & ATTN_FEATURE_INDEX32) != 0 && rng.percent(50)) p.index_dtype = ATTN_INDEX_32;
  c.once = {};
  c.nan_beyond_lengths = false;
  c.want_lse = true;
  for (Fill* fill : {&c.k, &c.v}) {
    if (rng.percent(50)) *fill = {.kind = FillKind::kPosition};
  }
  c.planted.clear();
  tidy(c);
  layout_of(c, kCacheK) = layout_of(drawn, kK);
  layout_of(c, kCacheV) = layout_of(drawn, kV);
  feature::draw_pools(rng, kCacheK, kCacheV, c);
  feature::draw_table(rng, kCopies, c);
  drop_misfits(c, {kCacheK, kCacheV});
  tidy(c);
}

}  // namespace

extern const Operation copy_pages = {.name = "copy_pages",
                                     .feature = ATTN_FEATURE_COPY_PAGES,
                                     .inputs = kInputsOfCopies,
                                     .outputs = kOutputsOfCopies,
                                     .evaluate = evaluate_exactly,
                                     .known = kCopiesKnow,
                                     .shape = shape};

}  // namespace attnfuzz::operations
