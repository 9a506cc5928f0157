// Tests the emulator of a plan: it follows every declaration, leaves hidden non-finite values open, and is
// within the oracle's bound.
#include "reference/emulator/planned_bits.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "reference/emulator/declared.h"
#include "reference/emulator/device.h"
#include "tests/reference/support.h"

namespace attnfuzz::emulator {
namespace {

void say_all(attn_plan& plan) {
  plan.accumulator = ATTN_ACC_TENSOR;
  plan.exp_class = ATTN_EXP_EX2_APPROX;
  plan.log_class = ATTN_LOG_LG2_APPROX;
  plan.rcp_class = ATTN_RCP_APPROX;
  plan.p_format = ATTN_FORMAT_OF_INPUT;
  plan.partial_format = ATTN_FORMAT_F32;
  plan.key_order = ATTN_KEYS_ASCENDING;
  plan.max_rule = ATTN_MAX_RUNNING;
  plan.dot_order = ATTN_DOT_ASCENDING;
  plan.sum_lanes = 4;
  plan.sum_run = 2;
  plan.score_rule = ATTN_SCORE_BY_STEPS;
  plan.tanh_rule = ATTN_TANH_IN_TWO;
  plan.rescale_rule = ATTN_RESCALE_EACH_TILE;
  plan.tile_order = ATTN_TILE_ASCENDING;
  plan.merge_rule = ATTN_MERGE_BY_WEIGHT;
  plan.merge_order = ATTN_MERGE_ASCENDING;
  plan.norm_rule = ATTN_NORM_BY_RECIPROCAL;
  plan.lse_rule = ATTN_LSE_FROM_LOG2;
}

// Emulates every row of the case.
PlannedBits follow(Case& c) {
  const RowSpace space(c.problem);
  std::vector<int64_t> rows(static_cast<size_t>(space.count()));
  std::iota(rows.begin(), rows.end(), 0);
  return planned_bits(c.problem, c.tensors(), c.plan, ATTN_ARITHMETIC_H200, rows);
}

Case gaussian(const Shape& shape) {
  Case c(shape);
  c.fill(Regime::kGaussian, 3);
  say_all(c.plan);
  return c;
}

TEST(PlannedBits, OfOneKeyAreItsValue) {
  Case c = gaussian({.seq_q = 1, .seq_k = 1, .dim_qk = 1, .dim_v = 2});
  c.problem.scale = 1;
  c.set_q(0, 0, 0, 0, 3);
  c.set_k(0, 0, 0, 0, 2);
  c.set_v(0, 0, 0, 0, 0.5f);
  c.set_v(0, 0, 0, 1, -65504);
  const PlannedBits due = follow(c);
  EXPECT_EQ(due.o, (std::vector<float>{0.5f, -65504}));
  EXPECT_EQ(due.lse, (std::vector<float>{6 * kLog2e * kLn2}));
  EXPECT_TRUE(due.open.empty());
}

TEST(PlannedBits, OfADeadRowAreZeroAndMinusInfinity) {
  Case c = gaussian({.seq_q = 2, .seq_k = 1, .causal = true, .align = ATTN_BOTTOM_RIGHT});
  const PlannedBits due = follow(c);
  for (size_t n = 0; n < static_cast<size_t>(due.columns); ++n)
    EXPECT_EQ(std::bit_cast<uint32_t>(due.o[n]), 0u);
  EXPECT_EQ(due.lse[0], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isfinite(due.lse[1]));
}

TEST(PlannedBits, HiddenValuesThatAreNotFiniteLeaveTheirColumnsOpen) {
  Case c = gaussian({.seq_q = 1, .seq_k = 5, .causal = true});
  c.set_v(0, 0, 4, 3, std::numeric_limits<float>::infinity());
  const PlannedBits due = follow(c);
  ASSERT_EQ(due.open.size(), 16u);
  for (size_t n = 0; n < 16; ++n) EXPECT_EQ(due.open[n], n == 3);
}

// The emulator follows each declaration of order and rounding, so another declaration gives other bits.
TEST(PlannedBits, DependOnEachFieldOfThePlan) {
  const struct {
    const char* what;
    std::function<void(Case&)> change;
  } words[] = {
      {"key_order", [](Case& c) { c.plan.key_order = ATTN_KEYS_DESCENDING; }},
      {"tile_k", [](Case& c) { c.plan.tile_k = 32, c.plan.split_tiles /= 2; }},
      {"split_tiles", [](Case& c) { c.plan.split_tiles = 4; }},
      {"sum_lanes", [](Case& c) { c.plan.sum_lanes = 1; }},
      {"sum_run", [](Case& c) { c.plan.sum_run = 1; }},
      {"merge_order", [](Case& c) { c.plan.merge_order = ATTN_MERGE_BY_FOURS; }},
      {"partial_format", [](Case& c) { c.plan.partial_format = ATTN_FORMAT_OF_INPUT; }},
      {"scale_mode", [](Case& c) { c.plan.scale_mode = ATTN_SCALE_SEPARATE; }},
      {"rescale_rule", [](Case& c) { c.plan.rescale_rule = ATTN_RESCALE_BY_FMA; }},
      {"lse_rule", [](Case& c) { c.plan.lse_rule = ATTN_LSE_BY_FMA; }},
  };
  const Shape shape{.seq_q = 64, .seq_k = 192, .num_splits = 6};
  const auto base = [&] {
    Case c = gaussian(shape);
    c.plan.split_tiles = 2;
    c.problem.scale = 0.3f;  // with a power of two no product would be rounded
    return c;
  };
  Case usual = base();
  ASSERT_EQ(left_open(usual.problem, usual.plan), "");
  const PlannedBits due = follow(usual);
  for (const auto& [what, change] : words) {
    Case c = base();
    change(c);
    const PlannedBits other = follow(c);
    EXPECT_NE(std::pair(due.o, due.lse), std::pair(other.o, other.lse)) << what;
  }
  Case steps = gaussian({.seq_q = 64, .seq_k = 64, .softcap = 3, .bias_dtype = ATTN_F32});
  steps.problem.scale = 0.3f;
  steps.plan.scale_mode = ATTN_SCALE_SEPARATE;
  Case fma = steps;
  fma.plan.score_rule = ATTN_SCORE_BY_FMA;
  EXPECT_NE(follow(steps).lse, follow(fma).lse);
}

TEST(PlannedBits, LieWithinTheOraclesBound) {
  const Shape shapes[] = {
      {.heads_q = 2, .seq_q = 20, .seq_k = 100, .causal = true, .align = ATTN_BOTTOM_RIGHT},
      {.dtype = ATTN_BF16, .seq_q = 9, .seq_k = 70, .dim_qk = 24, .window_left = 30},
      {.seq_q = 6, .seq_k = 90, .softcap = 3, .bias_dtype = ATTN_F32, .mask = true},
      {.seq_q = 3, .seq_k = 300, .num_splits = 5},
  };
  for (const Shape& shape : shapes) {
    for (const Regime regime : {Regime::kGaussian, Regime::kUniform, Regime::kPeaked, Regime::kConstantV}) {
      Case c(shape);
      c.fill(regime, 5);
      say_all(c.plan);
      if (shape.softcap > 0) c.plan.scale_mode = ATTN_SCALE_SEPARATE;
      if (shape.num_splits > 1) c.plan.split_tiles = 4;
      ASSERT_EQ(left_open(c.problem, c.plan), "");
      const PlannedBits due = follow(c);
      const Reference reference = evaluate(c.problem, c.tensors(), c.plan, h200());
      for (size_t row = 0; row < due.rows.size(); ++row) {
        const auto at = static_cast<int64_t>(row);
        EXPECT_LE(reference[TensorId::kLse].ratio(at, 0, due.lse[row]), 1) << name_of(regime) << " row " << row;
        for (int64_t column = 0; column < due.columns; ++column)
          EXPECT_LE(
              reference[TensorId::kO].ratio(
                  at, column, due.o[row * static_cast<size_t>(due.columns) + static_cast<size_t>(column)]),
              1)
              << name_of(regime) << " row " << row << " column " << column;
      }
    }
  }
}

TEST(LeftOpen, NamesUndeclaredFields) {
  Case c = gaussian({.seq_k = 64, .softcap = 2, .num_splits = 2});
  c.plan.scale_mode = ATTN_SCALE_SEPARATE;
  c.plan.split_tiles = 2;
  ASSERT_EQ(left_open(c.problem, c.plan), "");
  const std::pair<const char*, int32_t attn_plan::*> fields[] = {
      {"accumulator", &attn_plan::accumulator},   {"exp_class", &attn_plan::exp_class},
      {"scale_mode", &attn_plan::scale_mode},     {"score_rule", &attn_plan::score_rule},
      {"tanh_rule", &attn_plan::tanh_rule},       {"p_format", &attn_plan::p_format},
      {"key_order", &attn_plan::key_order},       {"max_rule", &attn_plan::max_rule},
      {"rescale_rule", &attn_plan::rescale_rule}, {"tile_order", &attn_plan::tile_order},
      {"dot_order", &attn_plan::dot_order},       {"sum_lanes", &attn_plan::sum_lanes},
      {"sum_run", &attn_plan::sum_run},           {"norm_rule", &attn_plan::norm_rule},
      {"lse_rule", &attn_plan::lse_rule},         {"merge_rule", &attn_plan::merge_rule},
      {"merge_order", &attn_plan::merge_order},   {"partial_format", &attn_plan::partial_format},
      {"log_class", &attn_plan::log_class},       {"rcp_class", &attn_plan::rcp_class}};
  for (const auto& [name, field] : fields) {
    attn_plan plan = c.plan;
    plan.*field = 0;
    EXPECT_NE(left_open(c.problem, plan).find(std::string("leaves ") + name), std::string::npos) << name;
  }
  c.plan.p_order = ATTN_P_NORMALISED;
  EXPECT_NE(left_open(c.problem, c.plan).find("leaves p_order"), std::string::npos);
  c.plan.p_order = ATTN_P_ANY;  // a running maximum says enough
  c.plan.merge_format = ATTN_FORMAT_F32;
  EXPECT_EQ(left_open(c.problem, c.plan), "");
  c.plan.merge_format = ATTN_FORMAT_OF_INPUT;
  EXPECT_NE(left_open(c.problem, c.plan).find("leaves merge_format"), std::string::npos);
}

}  // namespace
}  // namespace attnfuzz::emulator
