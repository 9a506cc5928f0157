#include "properties/train_step/sparse.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "tests/fuzz/batch/oracle_target.h"

namespace attnfuzz::train {
namespace {

double product(const std::vector<double>& x, const std::vector<double>& y) {
  double sum = 0;
  for (size_t n = 0; n < x.size(); ++n) sum += x[n] * y[n];
  return sum;
}

// The means of the blocks of keys, by (head, block, column).
std::vector<double> compress(const nsa::Sizes& s, const std::vector<double>& keys) {
  std::vector<double> means;
  for (int64_t h = 0; h < s.heads_kv; ++h) {
    for (int64_t block = 0; block < s.compressed(); ++block) {
      for (int64_t c = 0; c < s.dim; ++c) {
        double sum = 0;
        for (int64_t i = 0; i < s.block_length; ++i)
          sum += keys[static_cast<size_t>(((block * s.key_step + i) * s.heads_kv + h) * s.dim + c)];
        means.push_back(sum / static_cast<double>(s.block_length));
      }
    }
  }
  return means;
}

// The map of gradients is the transpose of the compression: <compress(x), y> = <x, through(y)> for all x and y.
TEST(Sparse, TheGradientOfACompressionIsItsTranspose) {
  SplitMix64 random{7};
  for (const auto& [step, length] : {std::pair<int64_t, int64_t>{4, 6}, {6, 4}, {5, 5}, {1, 1}, {8, 40}}) {
    const nsa::Sizes s = {.heads_kv = 2, .dim = 3, .tokens = 37, .key_step = step, .block_length = length};
    std::vector<double> x(static_cast<size_t>(s.tokens * s.heads_kv * s.dim)), through(x.size());
    for (double& one : x) one = static_cast<double>(random.below(64)) - 32;
    const std::vector<double> means = compress(s, x);
    std::vector<float> y(means.size());
    for (float& one : y) one = static_cast<float>(random.below(64)) - 32;
    add_through_compression(s, y, &through);
    EXPECT_NEAR(product(means, {y.begin(), y.end()}), product(x, through), 1e-9) << step << " " << length;
  }
}

// Takes groups of 16 query heads and chosen blocks of 64 keys alone, as kernels for tensor cores do.
class LargeTarget : public OracleTarget {
 public:
  LargeTarget()
      : OracleTarget(nullptr,
                     OracleTarget::kBackward | ATTN_FEATURE_SELECTED | ATTN_FEATURE_SELECTED_BACKWARD) {}
  PlanReply plan(const attn_problem& p, const attn_tensors& t, const attn_env& env) override {
    PlanReply reply = OracleTarget::plan(p, t, env);
    if (p.heads_q != 16 * p.heads_kv || p.block != 64)
      reply.status = ATTN_UNSUPPORTED, reply.reason = "16 heads a group, blocks of 64 keys";
    return reply;
  }
};

TEST(Sparse, TriesTheSizesOfKernelsForTensorCores) {
  LargeTarget target;
  SparseKernels kernels;
  kernels[static_cast<size_t>(nsa::Stage::kListed)].target = &target;
  const Batch batch = {.length = 128};
  const SparseChoice choice = choose_sparse_setup(std::span(&batch, 1), Gates::kDrawn, kernels);
  ASSERT_TRUE(choice.setup) << choice.why;
  const nsa::Sizes sizes = sizes_of(*choice.setup, batch);
  EXPECT_EQ(sizes.heads_q, 16);
  EXPECT_EQ(sizes.block, 64);
  EXPECT_EQ(sizes.key_step, 16);
  EXPECT_EQ(sizes.block_length, 32);
}

TEST(Sparse, APassNeedsItsFeatures) {
  EXPECT_EQ(name_of_pass(nsa::kStages), "gradients of attention over compressed keys");
  EXPECT_TRUE(does_pass(ATTN_FEATURE_BACKWARD | ATTN_FEATURE_KEY_STEP | ATTN_FEATURE_NO_FORWARD, nsa::kStages));
  EXPECT_FALSE(does_pass(ATTN_FEATURE_BACKWARD, nsa::kStages)) << "keys that stand for blocks";
  EXPECT_TRUE(does_pass(ATTN_FEATURE_SELECTED_BACKWARD, nsa::kStages + 1));
  EXPECT_TRUE(does_pass(ATTN_FEATURE_BACKWARD, nsa::kStages + 2));
  EXPECT_FALSE(
      does_pass(ATTN_FEATURE_KEY_STEP | ATTN_FEATURE_NO_FORWARD, static_cast<size_t>(nsa::Stage::kCompressed)));
  EXPECT_TRUE(does_pass(ATTN_FEATURE_KEY_STEP, static_cast<size_t>(nsa::Stage::kCompressed)));
}

}  // namespace
}  // namespace attnfuzz::train
