// The append writes new keys and values into a cache, behind those of each batch entry (ATTN_FEATURE_APPEND).
// The cache is a state: all of it is compared, so that a write to a wrong place is found.
#include "properties/operations/operation.h"

#include <algorithm>

#include "properties/case/case.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/features/storage/pools.h"
#include "properties/case/places/layouts.h"
#include "properties/case/places/packed.h"
#include "properties/operations/shape_dice.h"
#include "reference/caches.h"

namespace attnfuzz::operations {
namespace {

using enum TensorId;

constexpr TensorId kInputsOfAppend[] = {kKNew, kVNew, kKeyLengths, kCuQ, kBlockTable};
constexpr Output kOutputsOfAppend[] = {{.tensor = kCacheK, .kind = OutputKind::kExact},
                                       {.tensor = kCacheV, .kind = OutputKind::kExact}};

// Ignores the requested sample: all elements are compared.
Reference evaluate_exactly(const attn_problem& problem, const attn_tensors& host, const attn_plan&,
                           const Calibration&, RowSample, bool) {
  return evaluate_append(problem, host);
}

// A number of new rows: the drawn one, a few, or one at the border of a page or tile.
int64_t draw_rows(Rng& rng, int64_t drawn, int64_t page) {
  return rng.weighted<int64_t>({{40, drawn},
                                {25, rng.range(1, 8)},
                                {20, std::max<int64_t>(page * rng.range(1, 2) + rng.range(-1, 1), 0)},
                                {10, 1},
                                {5, 0}});
}

// A length at the border of a page, at either end of the capacity, or such that the new rows just fit or just
// do not.
int64_t draw_held(Rng& rng, int64_t page, int64_t rows, int64_t capacity) {
  const int64_t fits = std::max<int64_t>(capacity - rows, 0);
  return rng.weighted<int64_t>({{52, feature::draw_paged_length(rng, page, 64, capacity)},
                                {10, fits},
                                {10, fits + 1},
                                {6, std::max<int64_t>(capacity - 1, 0)},
                                // The last new row ends a page, or begins the next one.
                                {10, std::max<int64_t>(page * rng.range(1, 3) - rows + rng.range(0, 1), 0)},
                                {4, -rng.range(1, 9)},
                                {8, 0}});
}

// Packs the new rows. An entry may have none.
Packing draw_packing(Rng& rng, const Problem& p, int64_t page) {
  Packing packing;
  for (int64_t b = 0; b < p.batch; ++b)
    packing.lengths.push_back(std::clamp<int64_t>(draw_rows(rng, rng.range(0, p.seq_q), page), 0, p.seq_q));
  packing.slack = rng.weighted<int64_t>({{50, 0}, {30, 1}, {20, rng.range(2, 40)}});
  packing.numbers = packing.slack > 0 && rng.percent(20);
  return packing;
}

// Takes the drawn case's sizes, and adds lengths, packed rows and pages for an append.
void resize(const Case& drawn, uint64_t kernel_features, Rng& rng, Problem& p) {
  const Problem& from = drawn.problem;
  const auto takes = [&](uint64_t feature, int64_t percent) {
    return (kernel_features & feature) != 0 && rng.percent(percent);
  };
  p.dtype = from.dtype;
  p.batch = from.batch;
  p.heads_q = p.heads_kv = from.heads_kv;
  p.seq_q = from.seq_q, p.seq_k = from.seq_k;
  p.dim_qk = from.dim_qk, p.dim_v = from.dim_v;
  p.features = ATTN_FEATURE_APPEND | (from.features & ATTN_FEATURE_F32);
  p.paging = from.paging;
  if (!p.paging && p.seq_k <= 4096 && takes(ATTN_FEATURE_PAGED, 50)) p.paging = feature::draw_paging(rng);
  const int64_t page = p.paging ? p.paging->size : 16;
  p.packed_q = from.packed_q;
  if (!p.packed_q && takes(ATTN_FEATURE_RAGGED, 30)) p.packed_q = draw_packing(rng, p, page);
  if (takes(ATTN_FEATURE_INDEX32, 45)) p.index_dtype = ATTN_INDEX_32;
  if (from.key_lengths && rng.percent(25)) {
    p.key_lengths = from.key_lengths;
    return;
  }
  p.key_lengths.emplace();
  for (int64_t b = 0; b < p.batch; ++b) p.key_lengths->push_back(draw_held(rng, page, new_rows(p, b), p.seq_k));
}

// Draws fewer spare pages for large caches, because a check compares the whole cache, spare pages included.
void spare_less(Rng& rng, Problem& p) {
  constexpr int64_t kMostElements = int64_t{1} << 21;
  if (!p.paging) return;
  const int64_t of_page = p.heads_kv * p.paging->size * (p.dim_qk + p.dim_v);
  if (p.paging->spare * of_page > kMostElements) p.paging->spare = rng.range(0, 3);
}

// New rows get the drawn layouts of Q and O, the cache those of K and V. If pages were not drawn, the pools get
// a usual layout.
void lay_out(const Case& drawn, Rng& rng, Case& c) {
  constexpr std::pair<TensorId, TensorId> kFrom[] = {{kKNew, kQ}, {kVNew, kO}, {kCacheK, kK}, {kCacheV, kV}};
  for (const auto& [to, from] : kFrom) layout_of(c, to) = layout_of(drawn, from);
  if (c.problem.paging && !drawn.problem.paging) {
    feature::draw_pools(rng, kCacheK, kCacheV, c);
    feature::draw_table(rng, kBlockTable, c);
  }
  drop_misfits(c, {kKNew, kVNew, kCacheK, kCacheV});
}

// Values planted in K and V move to the new rows.
void plant_in_new_rows(const std::vector<Planted>& planted, Case& c) {
  c.planted.clear();
  for (Planted x : planted) {
    if (x.tensor != kK && x.tensor != kV) continue;
    x.tensor = x.tensor == kK ? kKNew : kVNew;
    if (c.problem.seq_q > 0) x.s %= c.problem.seq_q;
    c.planted.push_back(x);
  }
}

void shape(Case& c, uint64_t kernel_features) {
  if ((c.problem.features & ATTN_FEATURE_APPEND) != 0) return;
  const Case drawn = c;
  ShapeDice rng(drawn, 1);
  c.problem = Problem{};
  resize(drawn, kernel_features, rng, c.problem);
  spare_less(rng, c.problem);
  c.once = {};
  c.nan_beyond_lengths = rng.percent(70);
  c.want_lse = true;
  // Values that show where they come from.
  for (Fill* fill : {&c.k, &c.v}) {
    if (rng.percent(50)) *fill = {.kind = FillKind::kPosition};
  }
  plant_in_new_rows(drawn.planted, c);
  tidy(c);
  lay_out(drawn, rng, c);
  tidy(c);
}

}  // namespace

extern const Operation append = {.name = "append",
                                 .feature = ATTN_FEATURE_APPEND,
                                 .inputs = kInputsOfAppend,
                                 .outputs = kOutputsOfAppend,
                                 .evaluate = evaluate_exactly,
                                 .known = kAppendKnows,
                                 .shape = shape};

}  // namespace attnfuzz::operations
