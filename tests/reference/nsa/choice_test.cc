// Tests the choice of blocks: by score, with ties, forced blocks, and fewer blocks than asked for.
#include "reference/nsa/choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace attnfuzz {
namespace {

using List = std::vector<int64_t>;

// The choice of the last query, which sees all keys, among blocks of one key with these scores.
List choice(std::vector<float> scores, int64_t select, int64_t first = 0, int64_t last = 0) {
  attn_problem p = {};
  p.batch = p.heads_q = p.heads_kv = p.seq_q = p.dim_qk = p.dim_v = 1;
  p.bias_dtype = ATTN_NONE, p.window_left = p.window_right = -1;
  p.features = ATTN_FEATURE_NSA_SELECT;
  p.seq_k = static_cast<int64_t>(scores.size()), p.block = 1;
  p.select = select, p.select_first = first, p.select_last = last;
  attn_tensors t = {};
  t.scores = {scores.data(), {1, 1, 1, 1}};
  attn_plan plan = {};
  plan.tile_q = 1;
  const Reference due = evaluate_choice(p, t, plan, documented());
  EXPECT_EQ(due[TensorId::kChosen].columns, select);
  return due[TensorId::kChosen].integer;
}

TEST(Choice, TheHighestScoresInAscendingOrder) {
  EXPECT_EQ(choice({1, 5, 3, 4, 2}, 2), (List{1, 3}));
  EXPECT_EQ(choice({-INFINITY, -3, INFINITY}, 2), (List{1, 2}));
  EXPECT_EQ(choice({1, 2}, 4), (List{0, 1, -1, -1})) << "as many as there are";
  EXPECT_EQ(choice({}, 2), (List{-1, -1}));
}

TEST(Choice, AmongEqualScoresTheLowerNumber) {
  EXPECT_EQ(choice({7, 7, 7, 7}, 2), (List{0, 1}));
  EXPECT_EQ(choice({-0.0f, 0.0f, -0.0f}, 1), (List{0})) << "-0 equals +0";
  EXPECT_EQ(choice({1, 2, 1, 2, 1}, 3), (List{0, 1, 3}));
}

TEST(Choice, SomeAreAlwaysChosen) {
  EXPECT_EQ(choice({0, 9, 8, 7, 0}, 3, 1, 1), (List{0, 1, 4}));
  EXPECT_EQ(choice({0, 9, 8, 7, 0}, 2, 1, 1), (List{0, 4}));
  EXPECT_EQ(choice({3, 1}, 4, 2, 2), (List{0, 1, -1, -1})) << "the first are the last";
}

TEST(Choice, CandidatesEndWithTheOwnIncompleteBlock) {
  std::vector<float> scores = {1, 2, 3, 4, 9, 1, 1, 9};  // of two queries, four blocks each
  attn_problem p = {};
  p.batch = p.heads_q = p.heads_kv = p.dim_qk = p.dim_v = 1, p.seq_q = 2;
  p.bias_dtype = ATTN_NONE, p.window_left = p.window_right = -1;
  p.features = ATTN_FEATURE_NSA_SELECT;
  p.seq_k = 14, p.block = 4, p.select = 2, p.causal = 1, p.align = ATTN_TOP_LEFT;
  attn_tensors t = {};
  t.scores = {scores.data(), {8, 8, 4, 1}};
  attn_plan plan = {};
  plan.tile_q = 1;
  EXPECT_EQ(evaluate_choice(p, t, plan, documented())[TensorId::kChosen].integer, (List{0, -1, 0, -1}));
  p.align = ATTN_BOTTOM_RIGHT;  // the diagonals are keys 12 and 13, in the last block
  EXPECT_EQ(evaluate_choice(p, t, plan, documented())[TensorId::kChosen].integer, (List{2, 3, 0, 3}));
  const int64_t length = 9;  // the diagonals are keys 7 and 8
  t.key_lengths = &length, p.has_key_lengths = 1;
  EXPECT_EQ(evaluate_choice(p, t, plan, documented())[TensorId::kChosen].integer, (List{0, 1, 0, 1}));
}

TEST(Choice, NanAmongCandidatesAllowsAnything) {
  attn_problem p = {};
  p.batch = p.heads_q = p.heads_kv = p.seq_q = p.dim_qk = p.dim_v = 1;
  p.bias_dtype = ATTN_NONE, p.window_left = p.window_right = -1;
  p.features = ATTN_FEATURE_NSA_SELECT;
  p.seq_k = 2, p.block = 1, p.select = 1;
  std::vector<float> scores = {1, NAN};
  attn_tensors t = {};
  t.scores = {scores.data(), {2, 2, 2, 1}};
  attn_plan plan = {};
  plan.tile_q = 1;
  const Reference due = evaluate_choice(p, t, plan, documented());
  EXPECT_EQ(due[TensorId::kChosen].rule[0], static_cast<uint8_t>(Due::kAnything));
  EXPECT_EQ(due.unconstrained, 1);
  p.features |= ATTN_FEATURE_WIDE;
  EXPECT_THROW(evaluate_choice(p, t, plan, documented()), UnknownFeatures);
}

}  // namespace
}  // namespace attnfuzz
