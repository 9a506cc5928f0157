// Tests that the statistics warn about wrong kernels within the bound, and are silent on right kernels.
#include "reference/warnings/error_statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reference/rows/scatter.h"
#include "tests/reference/legal_kernels/declared.h"
#include "tests/reference/legal_kernels/legal_kernel.h"

namespace attnfuzz {
namespace {

// Long rows of values of one sign, in f16, by a kernel with a full declaration: there the bound is loosest.
struct Asked {
  ErrorStatistics statistics;
  bool fails;
  int64_t marked;  // of O
};
Asked ask(int64_t length, Wrong wrong, uint64_t seed, int64_t splits = 1,
          void (*declare)(attn_plan*) = nullptr) {
  Case c({.seq_q = 4,
          .seq_k = length,
          .dim_qk = 64,
          .dim_v = 64,
          .tile_q = 64,
          .tile_k = 64,
          .num_splits = splits});
  c.fill(Regime::kGaussian, seed);
  for (uint16_t& v : c.v) v &= 0x7fff;
  declare_all(&c.plan);
  c.plan.mma_block = 0;
  if (declare) declare(&c.plan);
  const Reference r = evaluate(c.problem, c.tensors(), c.plan, h200());
  const Output got = run_as_planned(c, {.seed = 2 * seed + 1, .exp_units = 1.4, .wrong = wrong});
  const Worst worst = worst_of(r, got);
  const std::vector<uint8_t> marks = mark_beyond(r, c.problem.dtype, TensorId::kO, got.o);
  return {error_statistics(r, c.problem.dtype, c.plan, got.o, got.lse), !(worst.o <= 1 && worst.lse <= 1),
          std::ranges::count(marks, 1)};
}

TEST(ErrorStatistics, IsSilentOnARightKernel) {
  for (const int64_t length : {65, 512, 2048}) {
    const Asked right = ask(length, Wrong::kNone, 1);
    EXPECT_FALSE(right.statistics.unlikely()) << length;
    EXPECT_EQ(right.marked, 0) << length;
  }
}

TEST(ErrorStatistics, SeesPartialsIn16Bits) {
  const Asked asked = ask(2048, Wrong::kPartials16, 1, 2);
  EXPECT_FALSE(asked.fails);
  EXPECT_GT(asked.statistics.size, 1);
  EXPECT_GT(asked.marked, 10);
  EXPECT_LT(asked.statistics.bias, 1) << "they are rounded to nearest";
}

TEST(ErrorStatistics, SeesATruncatedP) {
  const Asked asked = ask(8192, Wrong::kCutP, 1);
  EXPECT_FALSE(asked.fails);
  EXPECT_GT(asked.statistics.bias, 1);
  EXPECT_TRUE(asked.statistics.toward_zero);
}

TEST(ErrorStatistics, SeesAKeyDroppedFromALongRow) {
  const Asked asked = ask(16384, Wrong::kDropLastKey, 1);
  EXPECT_FALSE(asked.fails);
  EXPECT_GT(asked.statistics.lse, 1);
  EXPECT_GE(asked.statistics.worst_lse, 0);
}

TEST(ErrorStatistics, SeesACoarseExponential) {
  const Asked asked = ask(2048, Wrong::kCoarseExp, 1);
  EXPECT_FALSE(asked.fails);
  EXPECT_GT(asked.statistics.lse, 1);
}

TEST(ErrorStatistics, IsSilentOnDeclaredErrors) {
  const Asked partials =
      ask(2048, Wrong::kPartials16, 1, 2, [](attn_plan* p) { p->partial_format = ATTN_FORMAT_OF_INPUT; });
  EXPECT_FALSE(partials.statistics.unlikely());
  const Asked cut = ask(2048, Wrong::kCutP, 1, 1, [](attn_plan* p) { p->conversion = ATTN_CONVERT_FAITHFUL; });
  EXPECT_FALSE(cut.statistics.unlikely());
  const Asked coarse = ask(512, Wrong::kCoarseExp, 1, 1, [](attn_plan* p) { p->exp_error = 0x1p-19f; });
  EXPECT_FALSE(coarse.statistics.unlikely());
}

// Regression: 65,559 keys at D = 1 with scores that differ by about 10^-4. The running sums reach 2^14, whose
// last place is 2^-10, and truncation takes the same amount from all weights. A right kernel got a warning.
TEST(ErrorStatistics, IsSilentIfASumTruncatesAllWeightsAlike) {
  Case c({.seq_q = 4, .seq_k = 65559, .dim_qk = 1, .dim_v = 1, .tile_q = 64, .tile_k = 64});
  c.fill(Regime::kGaussian, 1);
  c.problem.scale = 1;
  for (int64_t i = 0; i < 4; ++i) c.set_q(0, 0, i, 0, std::ldexp(1.0f + 0.25f * static_cast<float>(i), -14));
  declare_all(&c.plan);
  const Reference r = evaluate(c.problem, c.tensors(), c.plan, h200());
  const Output got = run_as_planned(c, {.seed = 3, .exp_units = 1.4});
  const Worst worst = worst_of(r, got);
  EXPECT_EQ(worst.judged, 8);
  EXPECT_LE(worst.lse, 1);
  EXPECT_GT(worst.lse, 0.1 + 2 * 0.05) << "as roundings to either side would not have come to";
  EXPECT_FALSE(error_statistics(r, c.problem.dtype, c.plan, got.o, got.lse).unlikely());
}

TEST(ErrorStatistics, SharesOfOAndOfTheLseHaveDifferentCharges) {
  Case c({.seq_q = 2, .seq_k = 300, .dim_qk = 64, .tile_q = 64, .tile_k = 64});
  c.fill(Regime::kGaussian, 1);
  declare_all(&c.plan);
  const Reference r = evaluate(c.problem, c.tensors(), c.plan, h200());
  for (const size_t row : {0u, 1u}) EXPECT_NE(r.o_scatter[row], r.lse_scatter[row]);
}

// Equal scores have equal rounding errors of P. These add up, and are not unlikely.
TEST(ErrorStatistics, KeysOfOneWeightHaveEqualErrors) {
  constexpr int64_t kKeys = 200;  // no multiple of the number of keys hashed at once
  double same[kKeys], others[kKeys], one[kKeys], last[kKeys] = {};
  for (int k = 0; k < kKeys; ++k) same[k] = 0.25, others[k] = 0.25 + k * 0x1p-10, one[k] = 1;
  last[kKeys - 1] = 3;
  Scatter<2> alike(kKeys), apart(kKeys);
  alike.add(same, {one, last}, kKeys), apart.add(others, {one, last}, kKeys);
  EXPECT_EQ(alike.shares()[0], 1);
  EXPECT_EQ(alike.shares()[1], 1);
  EXPECT_LT(apart.shares()[0], 0.2);
  EXPECT_GE(apart.shares()[0], 1 / 16.0);
  EXPECT_EQ(apart.shares()[1], 1);
  EXPECT_EQ(Scatter<2>(0).shares()[0], 1);
  for (int k = 0; k < kKeys; ++k) others[k] = 1.0 / kKeys * (1 + k * 0x1p-30);
  Scatter<1> near(kKeys);
  near.add(others, {one}, kKeys);
  EXPECT_EQ(near.shares()[0], 1) << "of one weight beside a sum of 1";
}

}  // namespace
}  // namespace attnfuzz
