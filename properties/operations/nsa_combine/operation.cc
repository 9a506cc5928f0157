// The combination adds three results of attention, each multiplied by its gate (ATTN_FEATURE_NSA_COMBINE): the
// last stage of native sparse attention.
#include "properties/operations/operation.h"

#include "properties/case/case.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/places/layouts.h"
#include "properties/operations/shape_dice.h"
#include "reference/nsa/combination.h"

namespace attnfuzz::operations {
namespace {

using enum TensorId;

constexpr TensorId kInputsOfCombination[] = {kO1, kO2, kO3, kGates};
constexpr Output kOutputsOfCombination[] = {{.tensor = kO}};

// Gates like those of a sigmoid, one gate of 1 among zeros, some zeros, zeros of both signs, and gates outside
// of [0, 1].
Fill gates_of(Rng& rng) {
  const auto kind = rng.weighted<FillKind>({{45, FillKind::kUniform},
                                            {15, FillKind::kSmallInt},
                                            {12, FillKind::kOneHot},
                                            {12, FillKind::kGaussian},
                                            {5, FillKind::kConstant},
                                            {4, FillKind::kSignedZero},
                                            {4, FillKind::kPosition},
                                            {2, FillKind::kSubnormal},
                                            {1, FillKind::kHuge}});
  const int exponent = kind == FillKind::kPosition ? -6
                       : rng.percent(90)           ? 0
                                                   : static_cast<int>(rng.range(-6, 6));
  return {.kind = kind, .exponent = exponent, .seed = rng.bits() % 65536};
}

// Values planted in Q, K and V move to the sides, and some of those in Q to gates.
void plant(Rng& rng, const std::vector<Planted>& planted, Case& c) {
  c.planted.clear();
  for (Planted x : planted) {
    if (x.tensor != kQ && x.tensor != kK && x.tensor != kV) continue;
    x.tensor = x.tensor == kQ ? rng.percent(40) ? kGates : kO1 : x.tensor == kK ? kO3 : kO2;
    if (c.problem.seq_q > 0) x.s %= c.problem.seq_q;
    x.d %= x.tensor == kGates ? 3 : c.problem.dim_v;
    c.planted.push_back(x);
  }
}

// The drawn case's sizes, values, layouts and calls become those of the sides. The first side gets fill and
// layout of Q, the second those of V, the third those of K.
void shape(Case& c, uint64_t) {
  if (c.problem.combines()) return;
  const Case drawn = c;
  ShapeDice rng(drawn, 3);
  c = with_rows_only(drawn, ATTN_FEATURE_NSA_COMBINE);
  c.o1 = drawn.q, c.o2 = drawn.v, c.o3 = drawn.k;
  c.gates = gates_of(rng);
  c.want_lse = true;
  for (const auto& [to, as] : {std::pair{kO1, kQ}, {kO2, kV}, {kO3, kK}, {kGates, kQ}})
    layout_of(c, to) = layout_of(drawn, as);
  layout_of(c, kGates).spread = 0;
  plant(rng, drawn.planted, c);
  drop_misfits(c, {kO1, kO2, kO3, kGates, kO});
  tidy(c);
}

}  // namespace

extern const Operation nsa_combine = {.name = "nsa_combine",
                                      .feature = ATTN_FEATURE_NSA_COMBINE,
                                      .inputs = kInputsOfCombination,
                                      .outputs = kOutputsOfCombination,
                                      .evaluate = evaluate_combination,
                                      .known = kCombinationKnows,
                                      .shape = shape};

}  // namespace attnfuzz::operations
