// Tests the scores of blocks and the judge of a choice by them: against the double sum of the paper, at the
// ends of lists, with close scores, and with each way in which a list can be wrong.
#include "reference/nsa/block_scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace attnfuzz {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// One KV head with two query heads of one column, and queries that see everything unless `causal`.
struct Scoring {
  attn_problem p = {};
  std::vector<float> q, k, lse;
  int64_t row = 0;  // queries before the one whose list is judged

  Scoring(std::vector<float> queries, std::vector<float> keys, int64_t step, int64_t length, int64_t block)
      : q(std::move(queries)), k(std::move(keys)) {
    p.batch = p.heads_kv = p.dim_qk = p.dim_v = 1, p.heads_q = 2;
    p.dtype = ATTN_F32, p.scale = 1;
    p.bias_dtype = ATTN_NONE, p.window_left = p.window_right = -1;
    p.features = ATTN_FEATURE_NSA_SCORE | ATTN_FEATURE_F32;
    p.seq_q = static_cast<int64_t>(q.size()) / 2, p.seq_k = static_cast<int64_t>(k.size());
    p.key_step = step, p.key_offset = length - 1, p.block = block, p.select = 1;
    lse.assign(q.size(), 0);
    set_lse();
  }
  int64_t keys_of(int64_t i) const {
    int64_t count = 0;
    while (count < p.seq_k && (!p.causal || count * p.key_step + p.key_offset <= i)) ++count;
    return count;
  }
  double weight(int64_t row_of_q, int64_t c) const {
    return std::exp(static_cast<double>(q[static_cast<size_t>(row_of_q)]) * k[static_cast<size_t>(c)]);
  }
  void set_lse() {
    for (int64_t n = 0; n < static_cast<int64_t>(q.size()); ++n) {
      double sum = 0;
      for (int64_t c = 0; c < keys_of(n % p.seq_q); ++c) sum += weight(n, c);
      lse[static_cast<size_t>(n)] = static_cast<float>(std::log(sum));
    }
  }
  Reference due(const attn_plan& plan) {
    attn_tensors t = {};
    t.q = {q.data(), {0, p.seq_q, 1, 1}};
    t.k = {k.data(), {0, 0, 1, 1}};
    t.lse = {lse.data(), {0, p.seq_q, 1, 1}};
    return evaluate_block_scores(p, t, plan, documented());
  }
  Reference due() {
    attn_plan plan = {};
    plan.tile_q = plan.tile_k = 16, plan.accumulator = ATTN_ACC_FFMA;
    plan.scale_mode = ATTN_SCALE_SEPARATE, plan.p_format = ATTN_FORMAT_F32;
    return due(plan);
  }
};

TEST(BlockScores, AreTheDoubleSumOfThePaper) {
  Scoring of({1, 0.5f}, {0.25f, -1, 0.5f, 2, 0, -0.5f, 1}, 2, 4, 8);
  const Expected scores = of.due()[TensorId::kBlockScores];
  ASSERT_EQ(scores.columns, 3);  // of 7 * 2 + 3 positions
  for (int64_t j = 0; j < 3; ++j) {
    double sum = 0;  // (9), read from 1: sum over m < l'/d and n < l/d of p[(l'/d) j - m - n]
    for (int64_t h = 0; h < 2; ++h) {
      double all = 0;
      for (int64_t c = 0; c < 7; ++c) all += of.weight(h, c);
      for (int64_t m = 0; m < 4; ++m) {
        for (int64_t n = 0; n < 2; ++n) {
          const int64_t c = 4 * (j + 1) - m - n - 1;
          if (c >= 0 && c < 7) sum += of.weight(h, c) / all;
        }
      }
    }
    const auto at = static_cast<size_t>(j);
    EXPECT_NEAR(scores.value[at], sum, 1e-6);
    EXPECT_LE(std::abs(scores.value[at] - sum), scores.bound[at]) << "the stored LSE is rounded";
    EXPECT_EQ(scores.bound[at] > 0, sum > 0);
    EXPECT_LT(scores.bound[at], 1e-4);
  }
}

TEST(BlockScores, BlocksNeedNotBeMultiplesOfEachOther) {
  Scoring of({0, 0}, {1, 2, 3}, 3, 5, 4);  // keys of positions 0-4, 3-7 and 6-10
  const Expected scores = of.due()[TensorId::kBlockScores];
  // Each weight is 1/3, in both heads.
  const std::vector<double> due = {2.0 / 9 * (4 + 1), 2.0 / 9 * (1 + 4 + 2), 2.0 / 9 * 3, 0};
  ASSERT_EQ(scores.value.size(), due.size());
  for (size_t j = 0; j < due.size(); ++j) EXPECT_NEAR(scores.value[j], due[j], 1e-6) << j;
}

TEST(BlockScores, AQuerySeesKeysUpToItself) {
  Scoring of(std::vector<float>(2 * 9, 0), {1, 2, 3}, 2, 4, 4);
  of.p.causal = 1, of.p.align = ATTN_TOP_LEFT;
  of.set_lse();
  const Reference due = of.due();
  const Expected& scores = due[TensorId::kBlockScores];
  const auto at = [&](int64_t i, int64_t j) { return static_cast<size_t>(i * scores.columns + j); };
  EXPECT_EQ(scores.value[at(2, 0)], 0) << "no compressed key ends before query 3";
  EXPECT_EQ(scores.bound[at(2, 0)], 0);
  EXPECT_NEAR(scores.value[at(3, 0)], 4, 1e-6) << "one key, with twice its weight, in two heads";
  EXPECT_EQ(scores.rule[at(3, 1)], static_cast<uint8_t>(Due::kAnything)) << "block 1 begins behind query 3";
  EXPECT_EQ(scores.rule[at(4, 1)], static_cast<uint8_t>(Due::kNumber)) << "its own incomplete block";
  EXPECT_EQ(scores.value[at(4, 1)], 0);
  EXPECT_NEAR(scores.value[at(5, 1)], 1, 1e-6) << "half of the second key lies there";
}

TEST(BlockScores, ScoresThatAreNotFiniteMayBeAnything) {
  Scoring of({1, 1}, {1, 2}, 1, 1, 1);
  of.k[1] = static_cast<float>(kInf);
  Reference due = of.due();
  EXPECT_EQ(due.state[0], RowState::kUnconstrained);
  EXPECT_EQ(due[TensorId::kBlockScores].rule[0], static_cast<uint8_t>(Due::kAnything));
  of.k[1] = 2, of.lse[1] = NAN;
  EXPECT_EQ(of.due().state[0], RowState::kUnconstrained);
  of.lse[1] = 1;
  EXPECT_EQ(of.due().state[0], RowState::kBounded);
}

// A kernel that computes the LSE does not read it, and may err by more.
TEST(BlockScores, TheLseMayBeTheKernelsOwn) {
  Scoring of({1, 0.5f}, {0.25f, -1, 0.5f, 2}, 2, 4, 4);
  const Reference given = of.due();
  of.lse = {NAN, NAN};
  attn_plan own = {};
  own.tile_q = own.tile_k = 16, own.num_splits = 1, own.accumulator = ATTN_ACC_FFMA;
  own.scale_mode = ATTN_SCALE_SEPARATE, own.p_format = ATTN_FORMAT_F32;
  own.saved = ATTN_SAVED_RECOMPUTED;
  const Reference recomputed = of.due(own);
  EXPECT_EQ(recomputed.state[0], RowState::kBounded);
  for (size_t j = 0; j < 3; ++j) {
    EXPECT_NEAR(recomputed[TensorId::kBlockScores].value[j], given[TensorId::kBlockScores].value[j], 1e-6);
    EXPECT_GT(recomputed[TensorId::kBlockScores].bound[j], given[TensorId::kBlockScores].bound[j]);
  }
}

// Five blocks with scores of two heads, whose order is 4, 0, 2, 3, 1; blocks 0 and 2 differ by a few ulps.
Reference five(int64_t select, int64_t first = 0, int64_t last = 0) {
  Scoring of({1, 1}, {1, -1, 0.99999994f, 0, 2}, 1, 1, 1);
  of.p.select = select, of.p.select_first = first, of.p.select_last = last;
  return of.due();
}
std::string why(const Reference& due, std::vector<int64_t> list) { return objection_to_choice(due, 0, list); }

TEST(BlockScores, AChoiceIsASetOfTheHighestScores) {
  EXPECT_EQ(why(five(2), {4, 0}), "");
  EXPECT_EQ(why(five(2), {0, 4}), "") << "in any order";
  EXPECT_EQ(why(five(2), {2, 4}), "") << "blocks 0 and 2 are closer than their errors";
  EXPECT_EQ(why(five(3), {0, 2, 4}), "");
  EXPECT_NE(why(five(2), {4, 3}).find("names block 3 in place 1, whose score is at most"), std::string::npos);
  EXPECT_NE(why(five(2), {0, 2}).find("and not block 4"), std::string::npos);
  EXPECT_EQ(why(five(7), {-1, 0, 1, 2, 3, 4, -1}), "") << "-1 may stand anywhere";
}

TEST(BlockScores, WrongListsAreNamed) {
  EXPECT_EQ(why(five(2), {4, 4}), "names block 4 in place 1 again, after place 0");
  EXPECT_EQ(why(five(2), {4, 5}), "names block 5 in place 1, which is none of 5 candidates");
  EXPECT_EQ(why(five(2), {4, -2}), "names block -2 in place 1, which is none of 5 candidates");
  EXPECT_EQ(why(five(2), {4, -1}), "names 1 of 5 candidates, must name 2");
  EXPECT_EQ(why(five(7), {0, 1, 2, 3, -1, -1, -1}), "names 4 of 5 candidates, must name 5");
}

TEST(BlockScores, AListIsJudgedEvenIfScoresMayBeAnything) {
  Scoring of({1, 1}, {1, 2, 3, 4, 5}, 1, 1, 1);
  of.k[1] = static_cast<float>(kInf);
  of.p.select = 3, of.p.select_first = 1;
  const Reference due = of.due();
  ASSERT_EQ(due.state[0], RowState::kUnconstrained);
  EXPECT_EQ(due[TensorId::kChosen].rule[0], static_cast<uint8_t>(Due::kNumber));
  EXPECT_EQ(why(due, due[TensorId::kChosen].integer), "");
  EXPECT_EQ(why(due, {0, 1, 2}), "");
  EXPECT_EQ(why(due, {3, 0, 4}), "") << "any other block";
  EXPECT_EQ(why(due, {0, 3, 3}), "names block 3 in place 2 again, after place 1");
  EXPECT_EQ(why(due, {0, 3, 5}), "names block 5 in place 2, which is none of 5 candidates");
  EXPECT_EQ(why(due, {0, 3, -1}), "names 2 of 5 candidates, must name 3");
  EXPECT_EQ(why(due, {2, 3, 4}), "lacks block 0, which is always chosen");
}

TEST(BlockScores, SomeBlocksAreAlwaysChosen) {
  EXPECT_EQ(why(five(3, 2), {0, 1, 4}), "");
  EXPECT_EQ(why(five(3, 2), {0, 2, 4}), "lacks block 1, which is always chosen");
  EXPECT_EQ(why(five(3, 0, 2), {3, 4, 2}), "");
  EXPECT_EQ(why(five(3, 0, 2), {0, 2, 4}), "lacks block 3, which is always chosen");
  EXPECT_NE(why(five(3, 0, 2), {3, 4, 1}).find("names block 1"), std::string::npos);
}

TEST(BlockScores, TheOraclesOwnChoiceIsRight) {
  const Reference due = five(3, 1, 1);
  EXPECT_EQ(due[TensorId::kChosen].integer, (std::vector<int64_t>{0, 2, 4}));
  EXPECT_EQ(why(due, due[TensorId::kChosen].integer), "");
}

}  // namespace
}  // namespace attnfuzz
