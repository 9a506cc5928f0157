// The merge computes O and LSE over the keys of two sides, from each side's O and LSE (ATTN_FEATURE_MERGE). It
// is the last step of split keys, of prefix and suffix caches, and of rings of devices.
#include "properties/operations/operation.h"

#include <limits>

#include "properties/case/case.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/places/layouts.h"
#include "properties/operations/shape_dice.h"
#include "reference/merge.h"

namespace attnfuzz::operations {
namespace {

constexpr TensorId kInputsOfMerge[] = {TensorId::kO1, TensorId::kO2, TensorId::kLse1, TensorId::kLse2};
constexpr Output kOutputsOfMerge[] = {
    {.tensor = TensorId::kO},
    {.tensor = TensorId::kLse,
     .logarithm = true,
     .optional = true,
     .dead = -std::numeric_limits<double>::infinity()},
};

Reference evaluate_in_full(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                           const Calibration& calibration, RowSample sample, bool) {
  return evaluate_merge(problem, host, plan, calibration, sample);
}

// Values planted in Q and V move to the sides, in a column that the sides have.
void plant_in_sides(const std::vector<Planted>& planted, Case& c) {
  c.planted.clear();
  for (Planted x : planted) {
    if (x.tensor != TensorId::kQ && x.tensor != TensorId::kV) continue;
    x.tensor = x.tensor == TensorId::kQ ? TensorId::kO1 : TensorId::kO2;
    if (c.problem.seq_q > 0) x.s %= c.problem.seq_q;
    x.d %= c.problem.dim_v;
    c.planted.push_back(x);
  }
}

// The LSEs of the two sides: equal, a few units apart, or so far apart that a weight vanishes.
Fill lse_of(uint64_t seed) {
  constexpr int kExponents[] = {0, 0, 1, 2, 3, 5, 8, 20};
  Fill fill = {
      .kind = FillKind::kGaussian, .exponent = kExponents[seed % std::size(kExponents)], .seed = seed / 8};
  if (seed % 16 == 1) fill = {.kind = FillKind::kConstant, .exponent = 0, .seed = 0};
  return fill;
}

// The drawn case's sizes, values, layouts, calls and mask become those of the two sides. The first side gets
// fill and layout of Q, the second those of V. The mask's pattern decides which sides saw keys. If the kernel
// can merge in place, one case in eight does; batches on a GPU do not take such cases.
void shape(Case& c, uint64_t kernel_features) {
  if ((c.problem.features & ATTN_FEATURE_MERGE) != 0) return;
  const Case drawn = c;
  const Problem& from = drawn.problem;
  c = with_rows_only(drawn, ATTN_FEATURE_MERGE);
  constexpr uint64_t kSalt = 1;
  constexpr int kInPlacePercent = 12;
  if (ShapeDice(drawn, kSalt).percent(kInPlacePercent))
    c.problem.features |= kernel_features & ATTN_FEATURE_IN_PLACE;
  c.o1 = drawn.q, c.o2 = drawn.v;
  c.lse1 = lse_of(drawn.k.seed), c.lse2 = lse_of(drawn.v.seed);
  c.sides = from.mask   ? from.mask->visible
            : from.bias ? from.bias->finite
            : from.causal && from.seq_q > 1
                ? Pattern{.kind = PatternKind::kRandom, .parameter = 4, .seed = drawn.q.seed}
                : Pattern{};
  layout_of(c, TensorId::kO1) = layout_of(c, TensorId::kQ);
  layout_of(c, TensorId::kO2) = layout_of(c, TensorId::kV);
  layout_of(c, TensorId::kLse1) = layout_of(c, TensorId::kLse2) = layout_of(c, TensorId::kLse);
  plant_in_sides(drawn.planted, c);
  drop_misfits(c, {TensorId::kO1, TensorId::kO2, TensorId::kO, TensorId::kLse1, TensorId::kLse2});
  tidy(c);
}

}  // namespace

extern const Operation merge = {.name = "merge",
                                .feature = ATTN_FEATURE_MERGE,
                                .inputs = kInputsOfMerge,
                                .outputs = kOutputsOfMerge,
                                .evaluate = evaluate_in_full,
                                .known = kMergeKnows,
                                .shape = shape};

}  // namespace attnfuzz::operations
