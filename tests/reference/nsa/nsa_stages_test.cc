// Tests the first and the last stage of native sparse attention: means of blocks of keys, and gated sums.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "reference/nsa/combination.h"
#include "reference/nsa/compression.h"
#include "tests/reference/support.h"

namespace attnfuzz {
namespace {

attn_plan plain_plan(bool isolates, bool flushes = false) {
  attn_plan plan = {};
  plan.tile_q = 1;
  plan.accumulator = ATTN_ACC_FFMA;
  plan.rcp_class = ATTN_RCP_EXACT;
  plan.isolates_masked_nan = isolates;
  plan.flush_to_zero = flushes;
  return plan;
}

attn_problem problem_of(uint64_t feature) {
  attn_problem p = {};
  p.dtype = ATTN_F32;
  p.batch = p.heads_q = p.heads_kv = p.seq_q = p.dim_qk = p.dim_v = 1;
  p.bias_dtype = ATTN_NONE, p.window_left = p.window_right = -1;
  p.features = feature | ATTN_FEATURE_F32;
  return p;
}

// One element of O.
Reference combine(std::array<float, 3> gates, std::array<float, 3> sides, bool isolates = false,
                  bool flushes = false) {
  attn_tensors t = {};
  t.gates = {gates.data(), {3, 3, 3, 1}};
  t.o1 = {&sides[0], {1, 1, 1, 1}}, t.o2 = {&sides[1], {1, 1, 1, 1}}, t.o3 = {&sides[2], {1, 1, 1, 1}};
  return evaluate_combination(problem_of(ATTN_FEATURE_NSA_COMBINE), t, plain_plan(isolates, flushes),
                              documented());
}
Due due_of(const Reference& reference) { return static_cast<Due>(reference.main().rule[0]); }

TEST(Combination, IsTheGatedSum) {
  const Reference due = combine({0.5f, 2, -1}, {4, 3, 5});
  EXPECT_EQ(due.main().value[0], 3);
  EXPECT_GE(due.main().bound[0], 3 * 0x1p-24 * 13);
  EXPECT_LE(due.main().bound[0], 3.1 * 0x1p-24 * 13 + 0x1p-23 * 3);
}

TEST(Combination, GatesOfZeroGiveZeroExactly) {
  const Reference due = combine({0, -0.0f, 0}, {4, -3, 5});
  EXPECT_EQ(due.main().value[0], 0);
  EXPECT_EQ(due.main().bound[0], 0);
}

TEST(Combination, NaNBehindAGateOfZeroIsThePlansChoice) {
  EXPECT_EQ(due_of(combine({0, 1, 1}, {kNaN, 1, 1})), Due::kAnything);
  EXPECT_EQ(due_of(combine({0, 1, 1}, {kInf, 1, 1})), Due::kAnything);
  const Reference due = combine({-0.0f, 1, 1}, {kNaN, 1, 1}, true);
  EXPECT_EQ(due_of(due), Due::kNumber);
  EXPECT_EQ(due.main().value[0], 2);
  EXPECT_EQ(due_of(combine({0, 1, 1}, {kNaN, kNaN, 1})), Due::kMustBeNaN) << "another side is NaN";
  EXPECT_EQ(due_of(combine({kNaN, 1, 1}, {0, 1, 1}, true)), Due::kMustBeNaN);
  EXPECT_EQ(due_of(combine({1, 1, 1}, {kInf, 1, 1}, true)), Due::kAnything);
}

// A gate that is flushed to 0 closes its side, and one that is not lets the NaN through.
TEST(Combination, NaNBehindAGateThatMayBeFlushedMayBeAnything) {
  EXPECT_EQ(due_of(combine({0x1p-127f, 1, 1}, {kNaN, 1, 1}, true)), Due::kMustBeNaN) << "nothing is flushed";
  for (const bool isolates : {false, true}) {
    EXPECT_EQ(due_of(combine({0x1p-127f, 1, 1}, {kNaN, 1, 1}, isolates, true)), Due::kAnything);
    EXPECT_EQ(due_of(combine({0x1p-126f, 1, 1}, {kNaN, 1, 1}, isolates, true)), Due::kMustBeNaN);
    EXPECT_EQ(due_of(combine({kNaN, 1, 1}, {1, 1, 1}, isolates, true)), Due::kMustBeNaN);
  }
}

TEST(Combination, ASumThatMayOverflowAllowsAnything) {
  EXPECT_EQ(due_of(combine({1, 1, 1}, {0x1p126f, -0x1p126f, 1})), Due::kAnything);
  EXPECT_EQ(due_of(combine({1, 1, 1}, {0x1p125f, -0x1p125f, 1})), Due::kNumber);
}

// Any order of products and sums, each with or without a fused product, is within the bound.
TEST(Combination, EveryOrderIsWithinTheBound) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> value(-1, 1);
  double worst = 0;
  for (int n = 0; n < 20000; ++n) {
    std::array<float, 3> gates, sides;
    for (size_t s = 0; s < 3; ++s) gates[s] = value(random), sides[s] = std::ldexp(value(random), n % 40 - 20);
    const Reference due = combine(gates, sides);
    float fused = 0, plain = 0;
    for (const size_t s : {2u, 0u, 1u}) {
      fused = std::fma(gates[s], sides[s], fused);
      const volatile float product = gates[s] * sides[s];
      plain += product;
    }
    for (const float got : {fused, plain}) worst = std::max(worst, due.main().ratio(0, 0, got));
  }
  EXPECT_LE(worst, 1);
  EXPECT_GT(worst, 0.2);
}

TEST(Combination, SumsIn16BitsAreDeclared) {
  attn_problem p = problem_of(ATTN_FEATURE_NSA_COMBINE);
  p.dtype = ATTN_BF16, p.features = ATTN_FEATURE_NSA_COMBINE;
  uint16_t one = 0x3f80, gates[3] = {0x3f80, 0x3f80, 0x3f80};
  attn_tensors t = {};
  t.gates = {gates, {3, 3, 3, 1}};
  t.o1 = t.o2 = t.o3 = {&one, {1, 1, 1, 1}};
  attn_plan plan = plain_plan(true);
  const double fp32 = evaluate_combination(p, t, plan, documented()).main().bound[0];
  plan.merge_format = ATTN_FORMAT_OF_INPUT;
  const double narrow = evaluate_combination(p, t, plan, documented()).main().bound[0];
  EXPECT_LT(fp32, 3.1 * 0x1p-8);
  EXPECT_GT(narrow, 3 * 3 * 0x1p-8);
  p.features |= ATTN_FEATURE_SINK;
  EXPECT_THROW(evaluate_combination(p, t, plan, documented()), UnknownFeatures);
}

// K_cmp and V_cmp of keys of one column, in `rows` rows.
Reference compress(std::vector<float> keys, int64_t step, int64_t length, int64_t rows,
                   const int64_t* held = nullptr) {
  attn_problem p = problem_of(ATTN_FEATURE_NSA_COMPRESS);
  p.seq_q = rows, p.seq_k = static_cast<int64_t>(keys.size());
  p.key_step = step, p.key_offset = length - 1;
  p.has_key_lengths = held != nullptr;
  attn_tensors t = {};
  t.k = t.v = {keys.data(), {p.seq_k, p.seq_k, 1, 1}};
  t.key_lengths = held;
  return evaluate_compression(p, t, plain_plan(true), documented());
}

TEST(Compression, ABlockIsTheMeanOfItsKeys) {
  const Reference due = compress({1, 2, 3, 4, 5, 6, 7}, 2, 4, 4);
  EXPECT_EQ(due[TensorId::kKCmp].value, (std::vector<double>{2.5, 4.5, 0, 0})) << "the last block lacks a key";
  EXPECT_EQ(due[TensorId::kVCmp].value, due[TensorId::kKCmp].value);
  EXPECT_EQ(due[TensorId::kKCmp].bound[2], 0);
  EXPECT_EQ(due.dead, 2);
  EXPECT_EQ(compress({1, 2, 3, 4, 5, 6, 7, 8}, 2, 4, 3)[TensorId::kKCmp].value,
            (std::vector<double>{2.5, 4.5, 6.5}));
  EXPECT_EQ(compress({1, 2, 3}, 1, 4, 1).dead, 1) << "fewer keys than a block has";
  EXPECT_EQ(compress({}, 1, 1, 1).dead, 1);
}

// The last row's first key is 2^63 or 2^64.
TEST(Compression, ARowBeyondInt64HasNoKeys) {
  for (const int64_t rows : {3, 5}) {
    const Reference due = compress({1, 1, 1, 1}, int64_t{1} << 62, 1, rows);
    EXPECT_EQ(due[TensorId::kKCmp].value.front(), 1);
    EXPECT_EQ(due[TensorId::kKCmp].value.back(), 0);
    EXPECT_EQ(due.dead, rows - 1);
  }
}

TEST(Compression, AnEntryHasTheBlocksOfItsKeys) {
  const int64_t held = 5, less = -3, more = 99;
  EXPECT_EQ(compress({1, 2, 3, 4, 5, kNaN, kNaN}, 1, 4, 4, &held)[TensorId::kKCmp].value,
            (std::vector<double>{2.5, 3.5, 0, 0}));
  EXPECT_EQ(compress({1, 2}, 1, 1, 2, &less).dead, 2);
  EXPECT_EQ(compress({1, 2}, 1, 1, 2, &more).dead, 0);
}

TEST(Compression, NonFiniteValuesStayInTheirBlocks) {
  const Expected due = compress({1, kNaN, 3, kInf, 5, 0x1p127f}, 1, 1, 6)[TensorId::kKCmp];
  std::vector<Due> rules;
  for (const uint8_t rule : due.rule) rules.push_back(static_cast<Due>(rule));
  EXPECT_EQ(rules, (std::vector{Due::kNumber, Due::kMustBeNaN, Due::kNumber, Due::kAnything, Due::kNumber,
                                Due::kAnything}));
}

// Sums in any order, multiplied by 1 / l before or after the sum, or divided by l.
TEST(Compression, EveryOrderIsWithinTheBound) {
  std::mt19937 random(9);
  std::uniform_real_distribution<float> value(-1, 1);
  double worst = 0;
  for (const size_t length : {1u, 2u, 3u, 32u, 100u}) {
    const float inverse = 1.0f / static_cast<float>(length);
    for (int n = 0; n < 2000; ++n) {
      std::vector<float> keys(length);
      for (float& key : keys) key = value(random);
      const Reference due = compress(keys, 1, static_cast<int64_t>(length), 1);
      float up = 0, down = 0, first = 0;
      for (const float key : keys) up += key, first = std::fma(key, inverse, first);
      for (size_t j = length; j-- > 0;) down += keys[j];
      for (const float got : {up * inverse, up / static_cast<float>(length), down * inverse, first})
        worst = std::max(worst, due.main().ratio(0, 0, got));
    }
  }
  EXPECT_LE(worst, 1);
  EXPECT_GT(worst, 0.2);
}

}  // namespace
}  // namespace attnfuzz
