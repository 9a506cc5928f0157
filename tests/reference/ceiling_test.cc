// A plan under a ceiling: never looser than that, and itself where it is not looser.
#include "reference/ceiling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "reference/error_model.h"
#include "tests/reference/declared.h"

namespace attnfuzz {
namespace {

attn_problem problem_of(int64_t keys, int32_t dtype) {
  attn_problem p = {};
  p.size = sizeof p;
  p.dtype = dtype;
  p.batch = p.heads_q = p.heads_kv = p.seq_q = 1;
  p.seq_k = keys;
  p.dim_qk = p.dim_v = 64;
  p.scale = 0.125f;
  p.softcap = 20;
  p.bias_dtype = ATTN_NONE;
  return p;
}

// Anything that a plan may say, also what nobody would in good faith.
attn_plan any_plan(Random& random) {
  attn_plan plan = documented_ceiling();
  declare_any(&random, &plan);
  const auto one_of = [&](int64_t n) { return static_cast<int32_t>(random.below(n)); };
  plan.tile_q = plan.tile_k = int64_t{1} << one_of(8);
  plan.accumulator = one_of(3);
  plan.exp_class = one_of(5);
  plan.log_class = one_of(4);
  plan.rcp_class = one_of(3);
  plan.tanh_class = one_of(3);
  if (one_of(3) == 0) plan.exp_error = 0.24f;
  if (one_of(3) == 0) plan.merges = 100'000;
  if (one_of(3) == 0) plan.num_splits = 1 << 20;
  if (one_of(3) == 0) plan.rescales = int64_t{1} << 31;
  if (one_of(3) == 0) plan.p_scale = one_of(2) ? 0x1p-60f : 0x1p60f;
  if (one_of(3) == 0) plan.v_scale = one_of(2) ? 0x1p-60f : 0x1p60f;
  if (one_of(3) == 0) plan.mma_block = 1;
  return plan;
}

Calibration under(const attn_plan& ceiling, Calibration calibration = documented()) {
  calibration.ceiling = ceiling;
  return calibration;
}

void expect_no_looser(const ErrorModel& m, const ErrorModel& top, int64_t keys) {
  // One rounding a product is no looser class, though a measured tensor core may be better.
  EXPECT_LE(m.block_error(64), std::max(top.block_error(64), 64 * kU));
  EXPECT_LE(m.score_gamma, std::max(top.score_gamma, gamma(64, kU)));
  EXPECT_LE(m.eps_exp + 40 * m.eps_exp_slope, top.eps_exp + 40 * top.eps_exp_slope);
  EXPECT_LE(m.eps_log, top.eps_log);
  EXPECT_LE(m.eps_tanh, top.eps_tanh);
  EXPECT_LE(m.eps_reciprocal, top.eps_reciprocal);
  EXPECT_LE(m.folded_unit, top.folded_unit);
  EXPECT_LE(m.p_unit, top.p_unit);
  EXPECT_LE(m.p_tiny, top.p_tiny);
  EXPECT_GE(m.p_overflow, std::min(top.p_overflow, kOverflow));
  EXPECT_LE(m.v_unit, top.v_unit);
  EXPECT_LE(m.v_tiny, top.v_tiny);
  EXPECT_LE(m.o_unit, top.o_unit);
  EXPECT_LE(m.o_tiny, top.o_tiny);
  EXPECT_LE(m.rounded_sum, top.rounded_sum);
  EXPECT_LE(m.flushes, top.flushes);
  EXPECT_LE(m.splits, std::max<int64_t>(2, (keys + 15) / 16));
  EXPECT_LE(rescales_of(m, 0, keys - 1), static_cast<double>(keys));
}

TEST(CappedPlan, IsNeverLooserThanItsCeiling) {
  Random random(1);
  attn_plan tight = best_plan();
  tight.p_format = ATTN_FORMAT_OF_INPUT;
  for (int n = 0; n < 4000; ++n) {
    const int64_t keys = 1 + random.below(3000);
    const attn_problem p = problem_of(keys, n % 2 ? ATTN_F16 : ATTN_BF16);
    const attn_plan plan = any_plan(random);
    const Calibration calibration = n % 3 == 0 ? executor() : n % 3 == 1 ? h200() : documented();
    for (attn_plan ceiling : {documented_ceiling(), tight, best_plan()}) {
      const ErrorModel model = make_error_model(p, plan, under(ceiling, calibration));
      ceiling.tile_k = plan.tile_k;
      expect_no_looser(model, make_error_model(p, ceiling, calibration), keys);
      if (HasFailure()) FAIL() << "plan " << n;
    }
  }
}

TEST(CappedPlan, IsItselfWhereItIsNoLooser) {
  attn_plan plan = best_plan();
  declare_all(&plan);
  plan.tile_q = plan.tile_k = 64;
  plan.num_splits = plan.merges = plan.split_tiles = 4;
  plan.rescales = 4;
  plan.accumulator = ATTN_ACC_TENSOR;
  plan.exp_class = ATTN_EXP_EX2_APPROX;
  plan.scale_mode = ATTN_SCALE_FUSED;
  plan.p_format = ATTN_FORMAT_OF_INPUT;
  for (const attn_plan& ceiling : {documented_ceiling(), plan}) {
    const attn_plan capped = capped_plan(problem_of(1000, ATTN_F16), plan, under(ceiling));
    EXPECT_EQ(std::memcmp(&capped, &plan, sizeof plan), 0);
  }
}

TEST(CappedPlan, WithoutACeilingIsWhatWasDeclared) {
  Random random(2);
  for (int n = 0; n < 100; ++n) {
    const attn_plan plan = any_plan(random),
                    capped = capped_plan(problem_of(100, ATTN_F16), plan, documented());
    EXPECT_EQ(std::memcmp(&capped, &plan, sizeof plan), 0);
  }
}

}  // namespace
}  // namespace attnfuzz
