// Tests NaN, infinities, overflow, and scores that are too uncertain for the weights to be known.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/numbers/formats.h"
#include "tests/reference/legal_kernels/declared.h"
#include "tests/reference/legal_kernels/legal_kernel.h"
#include "tests/reference/support.h"

namespace attnfuzz {
namespace {

Case causal_case() {
  Case c({.heads_q = 2, .seq_q = 6, .seq_k = 6, .causal = true});
  c.problem.heads_kv = 1;
  c.fill(Regime::kGaussian, 7);
  return c;
}

TEST(NonFinite, ANaNKeyReachesExactlyTheRowsThatSeeIt) {
  Case c = causal_case();
  c.set_k(0, 0, 3, 5, NAN);
  const Reference r = c.reference();
  for (int64_t row = 0; row < 12; ++row) {
    const bool sees_it = row % 6 >= 3;
    EXPECT_EQ(r.state[static_cast<size_t>(row)], sees_it ? RowState::kNaN : RowState::kBounded) << row;
    EXPECT_EQ(r[TensorId::kO].ratio(row, 2, NAN), sees_it ? 0 : kInf);
    EXPECT_EQ(r[TensorId::kLse].ratio(row, 0, NAN), sees_it ? 0 : kInf);
    EXPECT_EQ(r[TensorId::kO].ratio(
                  row, 2, static_cast<float>(r[TensorId::kO].value[static_cast<size_t>(row * 16 + 2)])) > 1,
              sees_it);
    if (sees_it) EXPECT_EQ(r[TensorId::kLse].ratio(row, 0, 1.0f), kInf);
  }
}

TEST(NonFinite, ANaNQueryReachesOnlyItsRow) {
  Case c = causal_case();
  c.set_q(0, 1, 2, 0, NAN);
  const Reference r = c.reference();
  for (size_t row = 0; row < 12; ++row)
    EXPECT_EQ(r.state[row], row == 8 ? RowState::kNaN : RowState::kBounded) << row;
}

TEST(NonFinite, ANaNBiasReachesItsRowUnlessItsKeyIsHidden) {
  Case c({.seq_q = 2, .seq_k = 2, .causal = true, .bias_dtype = ATTN_F32});
  c.fill(Regime::kGaussian, 7);
  c.bias = {0, NAN, 0, NAN};
  const Reference r = c.reference();
  EXPECT_EQ(r.state[0], RowState::kBounded);
  EXPECT_EQ(r.state[1], RowState::kNaN);
}

TEST(NonFinite, ADeadRowStaysDeadWhateverItsQueryHolds) {
  Case c({.seq_q = 2, .seq_k = 1, .causal = true, .align = ATTN_BOTTOM_RIGHT});
  c.fill(Regime::kGaussian, 7);
  c.set_q(0, 0, 0, 0, NAN);
  c.set_v(0, 0, 0, 0, NAN);
  const Reference r = c.reference();
  EXPECT_EQ(r.state[0], RowState::kDead);
  EXPECT_EQ(r[TensorId::kO].ratio(0, 0, NAN), kInf);
}

TEST(NonFinite, ANaNValueReachesItsColumnIfVisibleAndMayLeakIfHidden) {
  Case c = causal_case();
  c.set_v(0, 0, 3, 5, NAN);
  Reference r = c.reference();
  for (int64_t i = 0; i < 6; ++i)
    for (int64_t col = 0; col < 16; ++col) {
      const int rule = col != 5 ? 0 : i >= 3 ? 1 : 2;
      EXPECT_EQ(r[TensorId::kO].rule[static_cast<size_t>(i * 16 + col)], rule) << i << " " << col;
    }
  EXPECT_EQ(r[TensorId::kO].ratio(0, 5, NAN), 0);
  EXPECT_EQ(r[TensorId::kO].ratio(0, 5, 1e30f), 0);
  EXPECT_EQ(r[TensorId::kO].ratio(4, 5, 1.0f), kInf);
  EXPECT_EQ(r[TensorId::kLse].ratio(4, 0, NAN), kInf) << "LSE is NaN through scores only";
  c.plan.isolates_masked_nan = 1;
  r = c.reference();
  EXPECT_EQ(r[TensorId::kO].rule[5], 0);
  EXPECT_EQ(r[TensorId::kO].ratio(0, 5, NAN), kInf);
  EXPECT_EQ(r[TensorId::kO].ratio(4, 5, NAN), 0);
}

TEST(NonFinite, KeysBeyondTheLengthDoNotMatter) {
  Case c({.seq_q = 3, .seq_k = 6});
  c.fill(Regime::kGaussian, 7);
  c.use_key_lengths({4});
  const Reference clean = c.reference();
  for (int64_t t = 0; t < 16; ++t) {
    c.set_k(0, 0, 4, t, NAN);
    c.set_v(0, 0, 5, t, t % 2 ? NAN : kInf);
  }
  const Reference poisoned = c.reference();
  EXPECT_EQ(poisoned[TensorId::kO].value, clean[TensorId::kO].value);
  EXPECT_EQ(poisoned[TensorId::kO].bound, clean[TensorId::kO].bound);
  EXPECT_EQ(poisoned[TensorId::kO].rule, clean[TensorId::kO].rule);
}

TEST(NonFinite, InfinitiesLeaveRowsOrColumnsUnconstrained) {
  Case c = causal_case();
  c.set_k(0, 0, 4, 0, kInf);
  Reference r = c.reference();
  EXPECT_EQ(r.state[3], RowState::kBounded);
  EXPECT_EQ(r.state[4], RowState::kUnconstrained);
  EXPECT_EQ(r.unconstrained, 4);
  EXPECT_EQ(r[TensorId::kO].ratio(4, 0, NAN), 0);
  EXPECT_EQ(r[TensorId::kLse].ratio(4, 0, NAN), 0);
  for (int64_t t = 0; t < 16; ++t) c.set_q(0, 0, 5, t, 0);
  EXPECT_EQ(c.reference().state[5], RowState::kUnconstrained) << "0 times infinity is no number";

  c = causal_case();
  c.set_v(0, 0, 4, 7, -kInf);
  r = c.reference();
  EXPECT_EQ(r.state[4], RowState::kBounded);
  EXPECT_EQ(r[TensorId::kO].rule[4 * 16 + 7], 2);
  EXPECT_EQ(r[TensorId::kO].bound[4 * 16 + 7], kInf);
  EXPECT_LT(r[TensorId::kO].bound[4 * 16 + 6], 1);
  EXPECT_LT(r[TensorId::kO].bound[4 * 16 + 8], 1);
  EXPECT_EQ(r.unconstrained, 4) << "two rows of two heads";
  c.set_v(0, 0, 4, 7, NAN);
  EXPECT_EQ(c.reference().unconstrained, 0) << "NaN is due";
  EXPECT_EQ(r[TensorId::kO].rule[4 * 16 + 6], 0);
}

TEST(NonFinite, AnInfinityPassesWhereTheFormatMayOverflow) {
  // 64 keys of V = 65504: one p = 1, the rest just above 0.5 + 2^-12, which fp16 rounds up.
  Case c({.seq_q = 1, .seq_k = 64, .dim_qk = 1, .dim_v = 1, .bias_dtype = ATTN_F32});
  c.fill(Regime::kZeroQuery, 1);
  for (int64_t j = 0; j < 64; ++j) {
    c.bias[static_cast<size_t>(j)] = j ? std::log(0.50025f) : 0;
    c.set_v(0, 0, j, 0, 65504);
  }
  const Reference r = c.reference();
  EXPECT_EQ(r[TensorId::kO].ratio(0, 0, kInf), 0);
  EXPECT_EQ(r[TensorId::kO].ratio(0, 0, -kInf), kInf);
  EXPECT_LE(r[TensorId::kO].ratio(0, 0, 65504), 1);
  for (int64_t j = 0; j < 64; ++j) c.set_v(0, 0, j, 0, 60000);
  EXPECT_EQ(c.reference()[TensorId::kO].ratio(0, 0, kInf), kInf);
}

TEST(NonFinite, ARowOfTheLowestFiniteBiasIsNotDead) {
  Case c({.seq_q = 1, .seq_k = 65, .dim_qk = 1, .dim_v = 1, .bias_dtype = ATTN_F32});
  c.fill(Regime::kZeroQuery, 1);
  c.plan.scale_mode = ATTN_SCALE_SEPARATE;
  for (int64_t j = 0; j < 65; ++j) {
    c.bias[static_cast<size_t>(j)] = std::numeric_limits<float>::lowest();
    c.set_v(0, 0, j, 0, j % 2 ? 1 : 2);
  }
  const Reference r = c.reference();
  EXPECT_EQ(r.state[0], RowState::kBounded);
  EXPECT_NEAR(r[TensorId::kO].value[0], (33 * 2 + 32 * 1) / 65.0, 1e-12);
  EXPECT_LE(r[TensorId::kO].ratio(0, 0, 98 / 65.0f), 1);
  EXPECT_GT(r[TensorId::kO].ratio(0, 0, 96 / 64.0f), 1) << "without the last key";
  EXPECT_GT(r[TensorId::kO].ratio(0, 0, 0), 1);
  EXPECT_EQ(r[TensorId::kO].ratio(0, 0, NAN), kInf);
  EXPECT_EQ(r[TensorId::kLse].bound[0], kInf) << "in powers of two the score overflows";
  EXPECT_EQ(r[TensorId::kLse].ratio(0, 0, -kInf), kInf) << "but the row is not dead";
  // If the biases differ, fp32 may overflow between them.
  c.bias[0] = -2e38f;
  EXPECT_EQ(c.reference().state[0], RowState::kUnconstrained);
}

// A tile or a split that has only such low keys overflows if its rounded maximum is subtracted in one
// multiply-add.
TEST(NonFinite, ATileOfOnlyLowKeysOverflowsIfTheScaleIsFused) {
  const auto state = [](float low, int32_t mode) {
    Case c({.seq_q = 1, .seq_k = 2, .dim_qk = 1});
    c.set_q(0, 0, 0, 0, 32768), c.set_k(0, 0, 1, 0, low);
    c.problem.scale = 1;
    c.plan.scale_mode = mode;
    return c.reference().state[0];
  };
  EXPECT_EQ(state(-65504, ATTN_SCALE_FUSED), RowState::kUnconstrained);
  EXPECT_NE(state(-65504, ATTN_SCALE_SEPARATE), RowState::kUnconstrained);
  EXPECT_EQ(state(-16384, ATTN_SCALE_FUSED), RowState::kBounded);
}

// If biases make the keys of a tile low, the NaN is a bug of the kernel.
TEST(NonFinite, ATileOfLowBiasesIsNoExcuseForNaN) {
  for (const float low : {-1e9f, -2e9f, -1e10f, -0x1.fep127f, std::numeric_limits<float>::lowest()}) {
    Case c({.seq_q = 1, .seq_k = 32, .bias_dtype = ATTN_F32});
    c.fill(Regime::kZeroQuery, 3);
    c.plan.scale_mode = ATTN_SCALE_SEPARATE_FMA;
    for (size_t j = 0; j < 32; ++j) c.bias[j] = j < 16 ? low : 0;
    const Reference r = c.reference();
    EXPECT_EQ(r.state[0], RowState::kBounded) << low;
    EXPECT_LT(r[TensorId::kO].bound[0], 1e-2) << low;
    EXPECT_EQ(r[TensorId::kO].ratio(0, 0, kNaN), kInf) << low;
  }
}

// If a bias absorbs everything added to it, all scores are the same number, and O is the mean of the values.
TEST(NonFinite, ABiasThatAbsorbsItsScoresLeavesAMean) {
  const auto row = [](float bias, int32_t mode, float size, int64_t splits,
                      void (*declare)(attn_plan*) = nullptr) {
    Case c({.seq_q = 1, .seq_k = 64, .dim_qk = 2, .dim_v = 1, .bias_dtype = ATTN_F32, .num_splits = splits});
    c.problem.scale = 1;
    c.plan.scale_mode = mode;
    if (declare) declare(&c.plan);
    c.bias.assign(64, bias);
    c.set_q(0, 0, 0, 0, 1);
    for (int64_t j = 0; j < 64; ++j) {
      c.set_k(0, 0, j, 0, j % 2 ? size : -size);
      c.set_v(0, 0, j, 0, static_cast<float>(j));
    }
    return c.reference();
  };
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  constexpr int32_t kApart = ATTN_SCALE_SEPARATE;
  // Biases so large, negative or positive, that doubles absorb the score as well.
  for (const float bias : {kLowest, -0x1.fep127f, -1e30f, 1e30f, -0x1p60f}) {
    const Reference r = row(bias, kApart, 10, 1);
    EXPECT_EQ(r.state[0], RowState::kBounded) << bias;
    EXPECT_NEAR(r[TensorId::kO].value[0], 31.5, 1e-9) << bias;
    EXPECT_LT(r[TensorId::kO].bound[0], 0.1) << bias;
    EXPECT_EQ(r[TensorId::kLse].value[0], bias) << bias;
    EXPECT_EQ(std::isfinite(r[TensorId::kLse].bound[0]), std::abs(bias) < 1e38f) << bias;
  }
  // fp32 absorbs the score and gives a mean; doubles do not. Neither result is called wrong.
  EXPECT_EQ(row(-1e9f, kApart, 10, 1).state[0], RowState::kUninformative);
  EXPECT_EQ(row(-0x1p52f, kApart, 0.25f, 1).state[0], RowState::kUninformative);
  // All scores are 0, so the result is a mean with any bias.
  EXPECT_EQ(row(-1e9f, kApart, 0, 1).state[0], RowState::kBounded);
  // If the scale may be fused, another number than the score may be subtracted. With splits, LSEs of this size
  // do not say how many keys they stand for.
  EXPECT_NE(row(kLowest, ATTN_SCALE_UNKNOWN, 10, 1).state[0], RowState::kBounded);
  EXPECT_NE(row(kLowest, ATTN_SCALE_SEPARATE_FMA, 10, 1).state[0], RowState::kBounded);
  EXPECT_EQ(row(kLowest, kApart, 10, 2).state[0], RowState::kUninformative);
  const auto by_maximum = [](attn_plan* p) { p->merge_format = ATTN_FORMAT_OF_INPUT; };
  EXPECT_EQ(row(kLowest, kApart, 10, 2, by_maximum).state[0], RowState::kBounded);
}

// Right kernels of all kinds pass on rows with such biases, and one that loses a key fails.
TEST(NonFinite, RightKernelsPassOnRowsThatTheLowestNumberMasks) {
  int64_t judged = 0, caught = 0;
  for (uint64_t number = 1; number <= 400; ++number) {
    Random random(number);
    Case c({.dtype = number % 2 ? ATTN_F16 : ATTN_BF16,
            .seq_q = 3,
            .seq_k = 1 + random.below(70),
            .dim_qk = 8,
            .dim_v = 3,
            .softcap = number % 3 ? 0 : 20.0f,
            .bias_dtype = ATTN_F32,
            .num_splits = 1 + random.below(2)});
    c.fill(kRegimes[random.below(std::size(kRegimes))], random.bits());
    const float biases[] = {std::numeric_limits<float>::lowest(), -0x1.fep127f, -1e30f, 1e25f};
    for (float& bias : c.bias) bias = random.below(8) == 0 ? -INFINITY : biases[number % 4];
    declare_any(&random, &c.plan);
    c.plan.scale_mode = ATTN_SCALE_SEPARATE;
    const Choices how{.seed = random.bits(), .mma = Arithmetic::kTruncate};
    const Reference r = c.reference();
    const Worst seen = worst_of(r, run_as_planned(c, how));
    ASSERT_LE(seen.o, 1) << number;
    ASSERT_LE(seen.lse, 1) << number;
    judged += std::ranges::count(r.state, RowState::kBounded);
    Choices wrong = how;
    wrong.wrong = Wrong::kDropLastKey;
    const Worst lost = worst_of(r, run_as_planned(c, wrong));
    caught += lost.o > 1;
  }
  EXPECT_GT(judged, 600);
  EXPECT_GT(caught, 150);
}

TEST(NonFinite, ProductsThatOverflowFp32AreUnconstrained) {
  Case c({.dtype = ATTN_BF16, .seq_q = 1, .seq_k = 3});
  c.fill(Regime::kGaussian, 1);
  for (int64_t t = 0; t < 2; ++t) {
    c.set_q(0, 0, 0, t, 1e20f);
    c.set_k(0, 0, 1, t, t ? -1e20f : 1e20f);
  }
  EXPECT_EQ(c.reference().state[0], RowState::kUnconstrained) << "the sum cancels, its terms overflow";

  Case values({.dtype = ATTN_BF16, .seq_q = 1, .seq_k = 2});
  values.fill(Regime::kZeroQuery, 1);
  for (int64_t j = 0; j < 2; ++j) values.set_v(0, 0, j, 3, 3e38f);
  const Reference r = values.reference();
  EXPECT_EQ(r.state[0], RowState::kBounded);
  EXPECT_EQ(r[TensorId::kO].rule[3], 2);
  EXPECT_EQ(r[TensorId::kO].bound[3], kInf);
  EXPECT_EQ(r[TensorId::kO].rule[2], 0);
}

// Q times the scale and log2 e overflows in fp16; Q and K overflow in 8 bits.
TEST(NonFinite, ConvertedFactorsThatOverflowAreUnconstrained) {
  const auto state = [](float q, float k, float scale, int32_t mode, int32_t format) {
    Case c({.seq_q = 1, .seq_k = 2, .dim_qk = 2});
    c.set_q(0, 0, 0, 1, q), c.set_k(0, 0, 1, 0, k);
    c.problem.scale = scale;
    c.plan.scale_mode = mode, c.plan.qk_format = format;
    return c.reference().state[0];
  };
  EXPECT_EQ(state(45376, 0, 1, ATTN_SCALE_FOLDED_Q, 0), RowState::kBounded);
  EXPECT_EQ(state(45440, 0, 1, ATTN_SCALE_FOLDED_Q, 0), RowState::kUnconstrained);
  EXPECT_EQ(state(-22720, 0, -2, ATTN_SCALE_FOLDED_Q, 0), RowState::kUnconstrained);
  EXPECT_EQ(state(45440, 0, 0.5f, ATTN_SCALE_FOLDED_Q, 0), RowState::kBounded);
  EXPECT_EQ(state(45440, 0, 1, ATTN_SCALE_FUSED, 0), RowState::kBounded);
  EXPECT_EQ(state(463.75f, 0, 1, ATTN_SCALE_FUSED, ATTN_FORMAT_E4M3), RowState::kBounded);
  EXPECT_EQ(state(-464, 0, 1, ATTN_SCALE_FUSED, ATTN_FORMAT_E4M3), RowState::kUnconstrained);
  EXPECT_EQ(state(0, 463.75f, 1, ATTN_SCALE_FUSED, ATTN_FORMAT_E4M3), RowState::kBounded);
  EXPECT_EQ(state(0, -464, 1, ATTN_SCALE_FUSED, ATTN_FORMAT_E4M3), RowState::kUnconstrained);
}

TEST(NonFinite, UninformativeRowsFallToTheHull) {
  Case c({.seq_q = 1, .seq_k = 5, .dim_qk = 64, .dim_v = 2});
  c.fill(Regime::kGaussian, 1);
  for (int64_t t = 0; t < 64; ++t) {
    c.set_q(0, 0, 0, t, 600);
    for (int64_t j = 0; j < 5; ++j) c.set_k(0, 0, j, t, 600);
  }
  for (int64_t j = 0; j < 5; ++j) c.set_v(0, 0, j, 0, static_cast<float>(2 + j));
  const Reference r = c.reference();
  ASSERT_EQ(r.state[0], RowState::kUninformative);
  EXPECT_EQ(r.uninformative, 1);
  EXPECT_LE(r[TensorId::kO].ratio(0, 0, 2.0f), 1);
  EXPECT_LE(r[TensorId::kO].ratio(0, 0, 6.0f), 1);
  EXPECT_GT(r[TensorId::kO].ratio(0, 0, 1.97f), 1);
  EXPECT_GT(r[TensorId::kO].ratio(0, 0, 6.03f), 1);
  EXPECT_EQ(r[TensorId::kO].ratio(0, 0, NAN), kInf);
  EXPECT_EQ(r[TensorId::kLse].ratio(0, 0, 12345.0f), 0);
  EXPECT_EQ(r[TensorId::kLse].ratio(0, 0, NAN), kInf);
}

// The row is merged so often in 16 bits that no finite bound is left.
TEST(NonFinite, AColumnWithoutABoundMakesItsRowUninformative) {
  Case c({.seq_q = 1, .seq_k = 40, .num_splits = 2});
  c.fill(Regime::kUniform, 1);
  c.plan.partial_format = ATTN_FORMAT_OF_INPUT;
  c.plan.merges = 1 << 20;
  EXPECT_EQ(c.reference().state[0], RowState::kUninformative);
}

// The weights are known well enough, but merges by the LSE are so many that O has no bound.
TEST(NonFinite, AMissingBoundOfOMakesARowUninformative) {
  Case c({.seq_q = 1, .seq_k = 40, .num_splits = 2});
  c.fill(Regime::kUniform, 1);
  c.plan.merges = 1 << 14;
  EXPECT_EQ(c.reference().state[0], RowState::kBounded);
  c.plan.merges = 1 << 17;
  EXPECT_EQ(c.reference().state[0], RowState::kUninformative);
}

TEST(NonFinite, OnlyTheColumnWhoseSumMayOverflowFp32IsUnconstrained) {
  Case c({.dtype = ATTN_BF16, .seq_q = 1, .seq_k = 4, .dim_qk = 1, .dim_v = 2});
  c.fill(Regime::kZeroQuery, 1);
  for (int64_t j = 0; j < 4; ++j) c.set_v(0, 0, j, 0, 3e38f), c.set_v(0, 0, j, 1, 1);
  const Reference r = c.reference();
  EXPECT_EQ(r.state[0], RowState::kBounded);
  EXPECT_EQ(r.unconstrained, 1);
  EXPECT_EQ(r[TensorId::kO].ratio(0, 0, kInf), 0);
  EXPECT_EQ(r[TensorId::kO].ratio(0, 1, kInf), kInf);
}

// 2^-126 is the least number that is never flushed.
TEST(NonFinite, TheLeastNormalFactorKeepsItsScore) {
  Case c({.dtype = ATTN_BF16, .seq_q = 1, .seq_k = 4, .dim_qk = 1, .dim_v = 2});
  c.fill(Regime::kGaussian, 1);
  c.plan.flush_to_zero = 1;
  c.set_q(0, 0, 0, 0, 0x1p122f);
  for (int64_t j = 0; j < 4; ++j) c.set_k(0, 0, j, 0, 0x1p-126f);
  EXPECT_LT(c.reference()[TensorId::kLse].bound[0], 1e-3);
  c.set_k(0, 0, 3, 0, 0x1p-127f);
  EXPECT_GT(c.reference()[TensorId::kLse].bound[0], 1e-3);
}

TEST(NonFinite, AFusedScaleOverflowsExpAtHugeScores) {
  Case c({.seq_q = 1, .seq_k = 5, .dim_qk = 64});
  c.fill(Regime::kGaussian, 1);
  for (int64_t t = 0; t < 64; ++t) {
    c.set_q(0, 0, 0, t, 60000);
    for (int64_t j = 0; j < 5; ++j) c.set_k(0, 0, j, t, 60000);
  }
  EXPECT_EQ(c.reference().state[0], RowState::kUnconstrained);
  c.plan.scale_mode = ATTN_SCALE_SEPARATE;
  EXPECT_EQ(c.reference().state[0], RowState::kUninformative);
}

// With one key the hull is its value, however uncertain its score is. But if mu is
// rounded, the weight before rounding P may be a power of two far from 1.
TEST(NonFinite, AFusedScaleMisplacesAnF16PAtLargeScores) {
  const auto bound = [](float score, attn_scale_mode mode, attn_format p_format) {
    Case c({.seq_q = 1, .seq_k = 1, .dim_qk = 1, .dim_v = 1});
    c.fill(Regime::kGaussian, 1);
    c.problem.scale = 1;
    c.set_q(0, 0, 0, 0, 32768);
    c.set_k(0, 0, 0, 0, score / 32768);
    c.set_v(0, 0, 0, 0, 1);
    c.plan.scale_mode = mode;
    c.plan.p_format = p_format;
    return c.reference()[TensorId::kO].bound[0];
  };
  // The weight is off by up to 2^11.5, and P in f16 loses numbers below 2^-25.
  const double right = bound(0x1p27f, ATTN_SCALE_SEPARATE, ATTN_FORMAT_OF_INPUT);
  EXPECT_LT(right, 0.0011);
  EXPECT_GT(bound(0x1p27f, ATTN_SCALE_FUSED, ATTN_FORMAT_OF_INPUT), right + 0x1p-14);
  EXPECT_LT(bound(0x1p27f, ATTN_SCALE_FUSED, ATTN_FORMAT_OF_INPUT), right + 0x1p-13);
  // Here P may be 0, or infinite, unless it stays in fp32.
  EXPECT_EQ(bound(0x1p29f, ATTN_SCALE_FUSED, ATTN_FORMAT_OF_INPUT), kInf);
  EXPECT_LT(bound(0x1p29f, ATTN_SCALE_FUSED, ATTN_FORMAT_F32), 0.0011);
  EXPECT_LT(bound(0x1p29f, ATTN_SCALE_SEPARATE, ATTN_FORMAT_OF_INPUT), 0.0011);
}

}  // namespace
}  // namespace attnfuzz
