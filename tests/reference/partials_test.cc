// Split-K's stages judged apart: partials of each split, and the reduction of exact ones.
#include "reference/partials.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tests/reference/emulation.h"

namespace attnfuzz {
namespace {

Shape split_shape(Random* random) {
  Shape shape;
  shape.dtype = static_cast<int32_t>(random->below(2));
  shape.heads_q = 2;
  shape.seq_q = 1 + random->below(5);
  shape.seq_k = random->below(150);
  shape.causal = random->below(2);
  shape.align = ATTN_BOTTOM_RIGHT;
  shape.num_splits = 1 + random->below(6);
  return shape;
}

// Rows ratio of split s of dense partials.
Worst worst_of_split(const Reference& reference, const Output& partials, int64_t split) {
  Output one;
  const auto rows = static_cast<size_t>(reference.rows),
             elements = rows * static_cast<size_t>(reference[TensorId::kO].columns);
  const auto s = static_cast<size_t>(split);
  one.lse.assign(partials.lse.begin() + static_cast<std::ptrdiff_t>(s * rows),
                 partials.lse.begin() + static_cast<std::ptrdiff_t>((s + 1) * rows));
  one.o.assign(partials.o.begin() + static_cast<std::ptrdiff_t>(s * elements),
               partials.o.begin() + static_cast<std::ptrdiff_t>((s + 1) * elements));
  return worst_of(reference, one);
}

TEST(Partials, CoverTheKeysOnceInOrder) {
  Case c({.seq_q = 1, .seq_k = 70, .tile_k = 16, .num_splits = 4});
  c.fill(Regime::kGaussian, 1);
  int64_t next = 0;
  for (int64_t s = 0; s < 4; ++s) {
    const PartialReference p = evaluate_partials(c.problem, c.tensors(), c.plan, documented(), s);
    EXPECT_EQ(p.first_key, next);
    next = p.last_key;
  }
  EXPECT_EQ(next, 70);
}

TEST(Partials, MoreSplitsThanTilesLeavesEmptyOnes) {
  Case c({.seq_q = 2, .seq_k = 17, .tile_k = 16, .num_splits = 5});
  c.fill(Regime::kGaussian, 1);
  const PartialReference p = evaluate_partials(c.problem, c.tensors(), c.plan, documented(), 3);
  EXPECT_EQ(p.reference.dead, 2);
  EXPECT_EQ(p.reference[TensorId::kLse].ratio(0, 0, -INFINITY), 0);
  EXPECT_EQ(p.reference[TensorId::kO].ratio(0, 0, 0.0f), 0);
}

TEST(Partials, MergeToTheWhole) {
  Case c({.seq_q = 3, .seq_k = 70, .tile_k = 16, .num_splits = 3});
  c.fill(Regime::kGaussian, 1);
  const Reference whole = c.reference();
  for (size_t row = 0; row < 3; ++row) {
    double sum = 0, o = 0;
    for (int64_t s = 0; s < 3; ++s) {
      const Reference part = evaluate_partials(c.problem, c.tensors(), c.plan, documented(), s).reference;
      sum += std::exp(part[TensorId::kLse].value[row] - whole[TensorId::kLse].value[row]);
      o += std::exp(part[TensorId::kLse].value[row] - whole[TensorId::kLse].value[row]) *
           part[TensorId::kO].value[row * 16];
    }
    EXPECT_NEAR(sum, 1, 1e-14);
    EXPECT_NEAR(o, whole[TensorId::kO].value[row * 16], 1e-14);
  }
}

TEST(Partials, NoFalseAlarmInEitherStage) {
  Random random(21);
  Worst partial, reduced;
  for (int k = 0; k < 400; ++k) {
    Case c(split_shape(&random));
    c.fill(kRegimes[k % 10], random.bits());
    const Emulated how{static_cast<Mma>(k / 10 % 3), static_cast<ExpError>(k / 30 % 3), Bug::kNone,
                       random.bits()};
    const Output partials = emulate_partials(c, how);
    for (int64_t s = 0; s < c.plan.num_splits; ++s) {
      const PartialReference p = evaluate_partials(c.problem, c.tensors(), c.plan, documented(), s);
      const Worst worst = worst_of_split(p.reference, partials, s);
      partial.o = std::max(partial.o, worst.o);
      partial.lse = std::max(partial.lse, worst.lse);
    }
    const Reference r = bound_reduce(c.problem, c.plan, documented(), c.plan.num_splits, partials.o.data(),
                                     partials.lse.data());
    const Worst worst = worst_of(r, emulate_reduce(c, partials, how));
    reduced.o = std::max(reduced.o, worst.o);
    reduced.lse = std::max(reduced.lse, worst.lse);
    ASSERT_LE(partial.o, 1) << "case " << k;
    ASSERT_LE(partial.lse, 1) << "case " << k;
    ASSERT_LE(reduced.o, 1) << "case " << k;
    ASSERT_LE(reduced.lse, 1) << "case " << k;
  }
  std::printf("  partial: O %.2f LSE %.2f; reduce: O %.2f LSE %.2f\n", partial.o, partial.lse, reduced.o,
              reduced.lse);
}

TEST(Partials, ReduceCatchesAForgottenSplit) {
  Case c({.dtype = ATTN_F16, .seq_q = 4, .seq_k = 64, .tile_k = 16, .num_splits = 4});
  c.fill(Regime::kGaussian, 2);
  Output partials = emulate_partials(c, {});
  const Reference r = bound_reduce(c.problem, c.plan, documented(), 4, partials.o.data(), partials.lse.data());
  for (size_t row = 0; row < 4; ++row) partials.lse[3 * 4 + row] = -INFINITY;
  EXPECT_GT(worst_of(r, emulate_reduce(c, partials, {})).o, 1);
}

TEST(Partials, ReduceIgnoresWhatAnEmptySplitHolds) {
  Case c({.seq_q = 1, .seq_k = 32, .dim_v = 1, .num_splits = 2});
  const float o[] = {0.5f, NAN}, lse[] = {1.0f, -INFINITY};
  const Reference r = bound_reduce(c.problem, c.plan, documented(), 2, o, lse);
  EXPECT_EQ(r[TensorId::kO].rule[0], 0);
  EXPECT_EQ(r[TensorId::kO].value[0], 0.5);
  EXPECT_EQ(r[TensorId::kLse].value[0], 1);
  const float none[] = {-INFINITY, -INFINITY};
  EXPECT_EQ(bound_reduce(c.problem, c.plan, documented(), 2, o, none).state[0], RowState::kDead);
  const float poisoned[] = {1.0f, NAN};
  EXPECT_EQ(bound_reduce(c.problem, c.plan, documented(), 2, o, poisoned).state[0], RowState::kNaN);
}

}  // namespace
}  // namespace attnfuzz
