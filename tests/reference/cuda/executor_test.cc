// Compares the kernels of the CUDA oracle, run by the CPU executor, with the host's oracle. (On a GPU:
// oracle_agreement.)
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

#include "reference/call/tensor_spec.h"
#include "reference/cuda/cuda_oracle.h"
#include "reference/gradients/gradients.h"
#include "reference/merge.h"
#include "tests/reference/cuda/declared_cases.h"
#include "tests/reference/support.h"

namespace attnfuzz {
namespace {

TEST(CudaOracle, AgreesWithTheHosts) {
  // With all of a row's numbers in shared memory, with few, and with none but those of a long row's block.
  for (const auto& [most_shared, cases] : {std::pair{1 << 20, 400}, std::pair{1 << 14, 200}, std::pair{48 << 10, 100}}) {
    std::string why;
    const auto oracle = open_cuda_oracle(&why, 0, most_shared);
    ASSERT_NE(oracle, nullptr) << why;
    const AgreementTally tally = hold_on_declared(*oracle, 0, cases, true);
    EXPECT_TRUE(tally.say()) << tally.first;
    EXPECT_EQ(tally.not_for_it, 0);
    EXPECT_GT(tally.rows, 5 * cases);
  }
}

// Case 806 has an infinite slope and a NaN in a visible key: its row is open.
TEST(CudaOracle, AgreesWithTheHostsOnANonFiniteSlope) {
  std::string why;
  const auto oracle = open_cuda_oracle(&why, 0);
  ASSERT_NE(oracle, nullptr) << why;
  const AgreementTally tally = hold_on_declared(*oracle, 806, 1);
  EXPECT_TRUE(tally.say()) << tally.first;
}

TEST(CudaOracle, AgreesWithTheHostsOnMerges) {
  std::string why;
  const auto oracle = open_cuda_oracle(&why, 0);
  ASSERT_NE(oracle, nullptr) << why;
  const AgreementTally tally = hold_on_merges(*oracle, 0, 1500, true);
  EXPECT_TRUE(tally.say()) << tally.first;
  EXPECT_EQ(tally.not_for_it, 0);
  EXPECT_GT(tally.bounded, 5000);
  EXPECT_GT(tally.uninformative, 50);
}

TEST(CudaOracle, AgreesWithTheHostsOnGradients) {
  std::string why;
  const auto oracle = open_cuda_oracle(&why, 0);
  ASSERT_NE(oracle, nullptr) << why;
  const AgreementTally tally = hold_on_gradients(*oracle, 0, 400, true);
  EXPECT_TRUE(tally.say()) << tally.first;
  EXPECT_EQ(tally.not_for_it, 0);
  EXPECT_GT(tally.bounded, 3000);
  EXPECT_GT(tally.biased, 100);
  EXPECT_GT(tally.biased_16_bits, 20);
  EXPECT_GT(tally.biased_packed, 40);
  EXPECT_GT(tally.biased_by_warp, 10);
  EXPECT_GT(tally.lists, 80);
}

// A GPU's tensor core aligns fp16 subnormals by their stored exponent. The oracle charges each key for that.
TEST(CudaOracle, AlignsSubnormalKeysAsTheHostsDoes) {
  std::string why;
  const auto oracle = open_cuda_oracle(&why, 0);
  ASSERT_NE(oracle, nullptr) << why;
  Case c(Shape{.seq_q = 5, .seq_k = 70});
  c.fill(Regime::kGaussian, 1);
  c.problem.scale = 4096;
  // Only keys of the first warp have subnormals.
  for (int64_t j = 0; j < 32; j += 3)
    for (int64_t t = 0; t < 16; ++t) c.set_k(0, 0, j, t, static_cast<float>(t % 5 - 2) * 0x1p-24f);
  for (int64_t j = 0; j < 70; ++j)
    if (j >= 32 || j % 3 > 0)
      for (int64_t t = 0; t < 16; ++t) c.set_k(0, 0, j, t, static_cast<float>(t % 3 - 1) * 0x1p-12f);
  const auto fast = oracle->evaluate(c.problem, c.tensors(), c.plan, h200(), {}, &why);
  ASSERT_TRUE(fast) << why;
  const Agreement agreement = compare(c.problem, *fast, evaluate(c.problem, c.tensors(), c.plan, h200(), {}));
  EXPECT_EQ(agreement.difference, "");
}

// Describes the first difference of the two oracles; empty if there is none.
std::string difference(Case& c) {
  std::string why;
  const auto oracle = open_cuda_oracle(&why, 0);
  const auto fast = oracle->evaluate(c.problem, c.tensors(), c.plan, h200(), {}, &why);
  EXPECT_TRUE(fast) << why;
  return compare(c.problem, *fast, evaluate(c.problem, c.tensors(), c.plan, h200(), {})).difference;
}

TEST(CudaOracle, JudgesRowsThatTheLowestNumberMasksCompletely) {
  std::string why;
  const auto oracle = open_cuda_oracle(&why, 0);
  ASSERT_NE(oracle, nullptr) << why;
  for (const float bias : {std::numeric_limits<float>::lowest(), -1e30f, -1e9f}) {
    for (const int64_t rows : {1, 5}) {
      Case c(Shape{.seq_q = rows, .seq_k = 70, .bias_dtype = ATTN_F32});
      c.fill(Regime::kGaussian, 4);
      for (float& one : c.bias) one = std::isinf(one) ? one : bias;
      c.plan.scale_mode = ATTN_SCALE_SEPARATE;
      for (const int32_t rule : {ATTN_MAX_UNKNOWN, ATTN_MAX_RUNNING}) {
        c.plan.max_rule = rule, c.plan.key_order = ATTN_KEYS_ASCENDING;
        const auto fast = oracle->evaluate(c.problem, c.tensors(), c.plan, h200(), {}, &why);
        ASSERT_TRUE(fast) << why;
        const Reference host = evaluate(c.problem, c.tensors(), c.plan, h200(), {});
        EXPECT_EQ(compare(c.problem, *fast, host).difference, "") << bias << ", rule " << rule;
        EXPECT_EQ(fast->state[0], bias < -1e10f ? RowState::kBounded : RowState::kUninformative);
      }
    }
  }
}

// The warps of a block share the keys of a long row, and all but one of them see none here. The bias makes the score's
// error so large that only the hull of the values is known.
TEST(CudaOracle, AHullOfOneVisibleKeyIsThatKey) {
  std::string why;
  const auto oracle = open_cuda_oracle(&why, 0);
  ASSERT_NE(oracle, nullptr) << why;
  for (const int64_t visible : {0, 700, 1099}) {
    Case c(Shape{.seq_q = 1, .seq_k = 1100, .bias_dtype = ATTN_F32});
    c.fill(Regime::kGaussian, 4);
    for (float& one : c.bias) one = -std::numeric_limits<float>::infinity();
    c.bias[static_cast<size_t>(visible)] = -1e9f;
    c.plan.scale_mode = ATTN_SCALE_SEPARATE;
    const auto fast = oracle->evaluate(c.problem, c.tensors(), c.plan, h200(), {}, &why);
    ASSERT_TRUE(fast) << why;
    const Reference host = evaluate(c.problem, c.tensors(), c.plan, h200(), {});
    EXPECT_EQ(compare(c.problem, *fast, host).difference, "") << visible;
    EXPECT_EQ(fast->state[0], RowState::kUninformative);
  }
}

TEST(CudaOracle, NaNReachesOnlyTheRowsThatSeeIt) {
  Case window(Shape{.seq_q = 4, .seq_k = 8, .window_left = 1, .window_right = 0});
  window.fill(Regime::kGaussian, 1);
  window.set_k(0, 0, 0, 3, std::nanf(""));
  EXPECT_EQ(difference(window), "");
  // A NaN behind the last key of the first batch entry, which has other non-finite values.
  Case entries(Shape{.batch = 2, .seq_q = 4, .seq_k = 8});
  entries.fill(Regime::kGaussian, 2);
  entries.plan.isolates_masked_nan = 0;
  entries.set_v(0, 0, 2, 5, std::nanf(""));
  entries.set_v(1, 0, 0, 1, std::nanf(""));
  EXPECT_EQ(difference(entries), "");
}

TEST(CudaOracle, LargeValuesOverflowByTheirWeights) {
  for (const int64_t rows : {1, 4}) {
    Case c(Shape{.dtype = ATTN_BF16, .seq_q = rows, .seq_k = 9, .dim_v = 140});
    c.fill(Regime::kGaussian, 3);
    for (int64_t j = 0; j < 9; ++j)
      for (int64_t d = 0; d < 140; ++d) c.set_v(0, 0, j, d, d % 7 == 0 ? 0x1.fcp127f : 0x1p125f);
    EXPECT_EQ(difference(c), "");
  }
  // The charge for numbers that a merge may flush depends on the largest value of all columns.
  Case merged(Shape{.dtype = ATTN_BF16, .seq_q = 3, .seq_k = 40, .dim_v = 6, .num_splits = 2});
  merged.fill(Regime::kGaussian, 4);
  for (int64_t j = 0; j < 40; ++j) merged.set_v(0, 0, j, 0, 0x1p120f);
  EXPECT_EQ(difference(merged), "");
}

TEST(CudaOracle, LeavesSmallProblemsToTheHost) {
  std::string why;
  const auto oracle = open_cuda_oracle(&why);
  ASSERT_NE(oracle, nullptr) << why;
  EXPECT_EQ(hold_on_declared(*oracle, 0, 20).not_for_it, 42);
}

TEST(CudaOracle, RefusesAKindOfProblemThatItDoesNotKnow) {
  std::string why;
  const auto oracle = open_cuda_oracle(&why, 0);
  ASSERT_TRUE(oracle) << why;
  attn_problem problem = {};
  problem.size = sizeof problem;
  // Each feature bit and each operation, by itself and together with a merge.
  const auto refuses = [&](uint64_t features, uint64_t unknown) {
    problem.features = features;
    why.clear();
    EXPECT_FALSE(oracle->evaluate(problem, {}, {}, h200(), {}, &why)) << std::hex << features;
    std::ostringstream bits;
    bits << "attn_problem.features has the bits 0x" << std::hex << unknown;
    EXPECT_TRUE(why.ends_with(bits.str())) << why;
  };
  int operations = 0;
  for (int n = 0; n < 64; ++n) {
    const uint64_t bit = uint64_t{1} << n;
    constexpr uint64_t kOfLists = ATTN_FEATURE_SELECTED_BACKWARD, kKnown = kForward | ATTN_FEATURE_KEY_STEP |
                                                                           ATTN_FEATURE_MERGE |
                                                                           ATTN_FEATURE_BACKWARD | kOfLists;
    if ((bit & kKnown) == 0) refuses(bit, bit), operations += (bit & kOperations) != 0;
    if ((bit & kMergeKnows.bits) == 0) refuses(bit | ATTN_FEATURE_MERGE, bit);
    if ((bit & (ATTN_FEATURE_MERGE | kOfLists)) == 0 && (bit & kGradientsKnow.bits) == 0)
      refuses(bit | ATTN_FEATURE_BACKWARD, bit);
    if ((bit & ATTN_FEATURE_MERGE) == 0 && (bit & kSelectedGradientsKnow.bits) == 0)
      refuses(bit | kOfLists, bit);
  }
  EXPECT_EQ(operations, std::popcount(kOperations) - 3) << "all but the merge and the backward passes";
}

}  // namespace
}  // namespace attnfuzz
