// Tests that a plan under a cap is never looser than the cap, and is unchanged if it is not looser.
#include "reference/model/error_cap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "reference/model/error_model.h"
#include "tests/reference/legal_kernels/declared.h"

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

// A plan with any declaration, also ones that no honest kernel makes.
attn_plan any_plan(Random& random) {
  attn_plan plan = documented_cap();
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

Calibration under(const attn_plan& cap, Calibration calibration = documented()) {
  calibration.error_cap = cap;
  return calibration;
}

void expect_no_looser(const ErrorModel& m, const ErrorModel& top, int64_t keys) {
  // FFMA rounds once for each product. It counts as the stricter class, although a measured tensor core may be
  // more exact. So 64 roundings are always allowed.
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

TEST(CappedPlan, IsNeverLooserThanItsCap) {
  Random random(1);
  attn_plan tight = best_plan();
  tight.p_format = ATTN_FORMAT_OF_INPUT;
  for (int n = 0; n < 4000; ++n) {
    const int64_t keys = 1 + random.below(3000);
    const attn_problem p = problem_of(keys, n % 2 ? ATTN_F16 : ATTN_BF16);
    const attn_plan plan = any_plan(random);
    const Calibration calibration = n % 3 == 0 ? executor() : n % 3 == 1 ? h200() : documented();
    for (attn_plan cap : {documented_cap(), tight, best_plan()}) {
      const ErrorModel model = make_error_model(p, plan, under(cap, calibration));
      cap.tile_k = plan.tile_k;
      expect_no_looser(model, make_error_model(p, cap, calibration), keys);
      if (HasFailure()) FAIL() << "plan " << n;
    }
  }
}

TEST(CappedPlan, IsUnchangedIfItIsNoLooser) {
  attn_plan plan = best_plan();
  declare_all(&plan);
  plan.tile_q = plan.tile_k = 64;
  plan.num_splits = plan.merges = plan.split_tiles = 4;
  plan.rescales = 4;
  plan.accumulator = ATTN_ACC_TENSOR;
  plan.exp_class = ATTN_EXP_EX2_APPROX;
  plan.scale_mode = ATTN_SCALE_FUSED;
  plan.p_format = ATTN_FORMAT_OF_INPUT;
  for (const attn_plan& cap : {documented_cap(), plan}) {
    const attn_plan capped = capped_plan(problem_of(1000, ATTN_F16), plan, under(cap));
    EXPECT_EQ(std::memcmp(&capped, &plan, sizeof plan), 0);
  }
}

// Class by class, on a device whose classes all differ.
TEST(CappedPlan, TakesTheStricterOfTwoClasses) {
  Calibration device = documented();
  device.ex2 = 1e-3, device.exp2f = 2e-3, device.expf = 3e-3, device.fast_expf = 1e-4,
  device.fast_expf_slope = 1e-4;
  device.lg2 = 3e-3, device.logf = 1e-3, device.fast_logf = 2e-3, device.rcp = 2e-3, device.rcp_exact = 1e-3;
  device.tanh_approx = 2e-3, device.tanhf = 1e-3;
  // From the strictest to the loosest.
  const struct {
    int32_t attn_plan::* member;
    std::vector<int32_t> order;
  } classes[] = {
      {&attn_plan::exp_class, {ATTN_EXP_EX2_APPROX, ATTN_EXP_EXP2F, ATTN_EXP_EXPF, ATTN_EXP_FAST_EXPF}},
      {&attn_plan::log_class, {ATTN_LOG_LOGF, ATTN_LOG_FAST_LOGF, ATTN_LOG_LG2_APPROX, ATTN_LOG_UNKNOWN}},
      {&attn_plan::rcp_class, {ATTN_RCP_EXACT, ATTN_RCP_APPROX, ATTN_RCP_UNKNOWN}},
      {&attn_plan::tanh_class, {ATTN_TANH_TANHF, ATTN_TANH_APPROX, ATTN_TANH_UNKNOWN}},
      {&attn_plan::scale_mode,
       {ATTN_SCALE_SEPARATE, ATTN_SCALE_FUSED, ATTN_SCALE_SEPARATE_FMA, ATTN_SCALE_FOLDED_Q,
        ATTN_SCALE_UNKNOWN}},
      {&attn_plan::p_format, {ATTN_FORMAT_F32, ATTN_FORMAT_TF32, ATTN_FORMAT_OF_INPUT, ATTN_FORMAT_E4M3}},
      {&attn_plan::p_format, {ATTN_FORMAT_F32, ATTN_FORMAT_TF32, ATTN_FORMAT_F16, ATTN_FORMAT_E5M2}},
      {&attn_plan::p_format, {ATTN_FORMAT_TF32, ATTN_FORMAT_BF16, ATTN_FORMAT_E5M2}},
      {&attn_plan::partial_format, {ATTN_FORMAT_F32, ATTN_FORMAT_OF_INPUT}},
      {&attn_plan::merge_format, {ATTN_FORMAT_F32, ATTN_FORMAT_OF_INPUT}},
      {&attn_plan::v_format, {ATTN_FORMAT_F32, ATTN_FORMAT_TF32, ATTN_FORMAT_OF_INPUT, ATTN_FORMAT_E4M3}},
      {&attn_plan::v_format, {ATTN_FORMAT_F32, ATTN_FORMAT_TF32, ATTN_FORMAT_BF16, ATTN_FORMAT_E5M2}},
      {&attn_plan::qk_format, {ATTN_FORMAT_F32, ATTN_FORMAT_TF32, ATTN_FORMAT_E4M3}},
      {&attn_plan::merge_rule, {ATTN_MERGE_BY_WEIGHT, ATTN_MERGE_BY_LSE, ATTN_MERGE_ONE_BY_ONE}},
      {&attn_plan::accumulator, {ATTN_ACC_FFMA, ATTN_ACC_TENSOR}},
      {&attn_plan::flush_to_zero, {0, 1}},
      {&attn_plan::conversion, {ATTN_CONVERT_NEAREST, ATTN_CONVERT_FAITHFUL}},
      {&attn_plan::sum_rule, {ATTN_SUM_OF_EXP, ATTN_SUM_OF_ROUNDED_P}},
      {&attn_plan::p_order, {ATTN_P_UNNORMALISED, ATTN_P_NORMALISED, ATTN_P_ANY}},
  };
  for (size_t number = 0; number < std::size(classes); ++number) {
    const auto& [member, order] = classes[number];
    for (size_t declared = 0; declared < order.size(); ++declared)
      for (size_t top = 0; top < order.size(); ++top) {
        attn_plan plan = best_plan(), cap = best_plan();
        plan.*member = order[declared], cap.*member = order[top];
        const attn_plan capped = capped_plan(problem_of(100, ATTN_F16), plan, under(cap, device));
        EXPECT_EQ(capped.*member, order[std::min(declared, top)])
            << "class " << number << ": " << declared << " under " << top;
      }
  }
  // An exponential that is not known may be any: as loose as the loosest.
  for (double Calibration::* loosest : {&Calibration::ex2, &Calibration::exp2f, &Calibration::expf}) {
    Calibration other = device;
    other.*loosest = 1;
    attn_plan plan = best_plan(), cap = best_plan();
    plan.exp_class = ATTN_EXP_UNKNOWN, cap.exp_class = ATTN_EXP_FAST_EXPF;
    EXPECT_EQ(capped_plan(problem_of(100, ATTN_F16), plan, under(cap, other)).exp_class, ATTN_EXP_FAST_EXPF);
    EXPECT_EQ(capped_plan(problem_of(100, ATTN_F16), plan, under(cap, device)).exp_class, ATTN_EXP_UNKNOWN);
  }
}

// A running maximum says that the sum divides at the end, which no cap loosens.
TEST(CappedPlan, KeepsTheOrderOfPThatOtherFieldsImply) {
  attn_plan plan = documented_cap(), cap = documented_cap();
  cap.p_order = ATTN_P_NORMALISED;
  EXPECT_EQ(capped_plan(problem_of(100, ATTN_F16), plan, under(cap)).p_order, ATTN_P_NORMALISED);
  plan.max_rule = ATTN_MAX_RUNNING, plan.key_order = ATTN_KEYS_ASCENDING;
  EXPECT_EQ(capped_plan(problem_of(100, ATTN_F16), plan, under(cap)).p_order, ATTN_P_UNNORMALISED);
  EXPECT_EQ(best_plan().p_order, ATTN_P_UNNORMALISED);
}

// fp16 has more bits than bf16, and less range; likewise e4m3 and e5m2. Of two such formats the cap's counts.
TEST(CappedPlan, TakesTheCapsFormatIfNeitherIsStricter) {
  const auto capped = [](int32_t declared, int32_t top, int32_t dtype) {
    attn_plan plan = best_plan(), cap = best_plan();
    plan.p_format = declared, cap.p_format = top;
    return capped_plan(problem_of(100, dtype), plan, under(cap)).p_format;
  };
  for (const auto& [one, other] : {std::pair{ATTN_FORMAT_F16, ATTN_FORMAT_BF16},
                                   {ATTN_FORMAT_E4M3, ATTN_FORMAT_E5M2},
                                   {ATTN_FORMAT_E4M3, ATTN_FORMAT_BF16}}) {
    EXPECT_EQ(capped(one, other, ATTN_F16), other);
  }
  EXPECT_EQ(capped(ATTN_FORMAT_BF16, ATTN_FORMAT_F16, ATTN_F16), ATTN_FORMAT_F16);
  EXPECT_EQ(capped(ATTN_FORMAT_BF16, ATTN_FORMAT_OF_INPUT, ATTN_F16), ATTN_FORMAT_OF_INPUT);
  EXPECT_EQ(capped(ATTN_FORMAT_BF16, ATTN_FORMAT_OF_INPUT, ATTN_BF16), ATTN_FORMAT_BF16);
  EXPECT_EQ(capped(ATTN_FORMAT_F16, ATTN_FORMAT_OF_INPUT, ATTN_BF16), ATTN_FORMAT_OF_INPUT);
}

TEST(CappedPlan, LimitsADeclaredErrorAndCounts) {
  const attn_problem p = problem_of(100, ATTN_F16);
  attn_plan plan = best_plan(), cap = best_plan();
  // An exponential as good as the cap's stays what it is.
  plan.exp_class = ATTN_EXP_EX2_APPROX;
  EXPECT_EQ(capped_plan(p, plan, under(cap)).exp_class, ATTN_EXP_EX2_APPROX);
  plan.exp_error = 0.1f;
  attn_plan capped = capped_plan(p, plan, under(cap));
  EXPECT_EQ(capped.exp_error, 0);
  EXPECT_EQ(capped.exp_class, ATTN_EXP_EXP2F);
  cap.exp_error = 0.05f;
  EXPECT_EQ(capped_plan(p, plan, under(cap)).exp_error, 0.05f);
  plan.exp_error = 0.01f;
  EXPECT_EQ(capped_plan(p, plan, under(cap)).exp_error, 0.01f);
  // At most one split for 16 keys (but two in all), and one rescale for each key. A cap may allow fewer.
  plan = best_plan();
  plan.num_splits = 50, plan.merges = 60, plan.rescales = 200;
  cap = documented_cap();
  capped = capped_plan(p, plan, under(cap));
  EXPECT_EQ(capped.num_splits, 7);
  EXPECT_EQ(capped.merges, 7);
  EXPECT_EQ(capped.rescales, 100);
  capped = capped_plan(problem_of(0, ATTN_F16), plan, under(cap));
  EXPECT_EQ(capped.num_splits, 2);
  EXPECT_EQ(capped.rescales, 1);
  cap.merges = 3, cap.rescales = 1;
  capped = capped_plan(p, plan, under(cap));
  EXPECT_EQ(capped.num_splits, 3);
  EXPECT_EQ(capped.merges, 3);
  EXPECT_EQ(capped.rescales, 1);
  // A limit of rescales leaves the tiles, and what the plan says about their maxima.
  const auto rescales = [&](int64_t tile_k, int64_t limit, int32_t max_rule) {
    attn_plan with = best_plan(), top = documented_cap();
    with.tile_k = tile_k, with.max_rule = max_rule, with.key_order = ATTN_KEYS_ASCENDING;
    top.rescales = limit;
    const attn_plan under_top = capped_plan(p, with, under(top));
    EXPECT_EQ(under_top.max_rule, max_rule);
    EXPECT_EQ(under_top.tile_k, tile_k);
    return rescales_of(make_error_model(p, with, under(top)), 0, 99);
  };
  for (const int32_t rule : {ATTN_MAX_UNKNOWN, ATTN_MAX_WHOLE, ATTN_MAX_RUNNING}) {
    EXPECT_EQ(rescales(1, 4, rule), 4);
    EXPECT_EQ(rescales(0, 4, rule), 4);
    EXPECT_EQ(rescales(25, 4, rule), 4);
    EXPECT_EQ(rescales(64, 4, rule), 2);
    EXPECT_EQ(rescales(1, 0, rule), 100);
  }
  // The caller says what the LSE holds.
  attn_plan without = best_plan();
  without.lse_sink = 1;
  EXPECT_EQ(capped_plan(p, without, under(documented_cap())).lse_sink, 0);
  EXPECT_EQ(capped_plan(p, best_plan(), under(without)).lse_sink, 1);
  // Fewer products at once are looser; 0 means the device's own number.
  const auto block = [&](int32_t declared, int32_t top) {
    plan.mma_block = declared, cap.mma_block = top;
    return capped_plan(p, plan, under(cap, h200())).mma_block;
  };
  EXPECT_EQ(block(0, 0), 0);
  EXPECT_EQ(block(0, 8), 0);
  EXPECT_EQ(block(16, 0), 16);
  EXPECT_EQ(block(15, 0), 0);
  EXPECT_EQ(block(8, 8), 8);
  EXPECT_EQ(block(7, 8), 8);
  EXPECT_EQ(block(9, 8), 9);
  // Scales are taken from the cap; isolates_masked_nan counts if either declares it.
  plan.p_scale = 4, plan.v_scale = 5, cap.p_scale = 2, cap.v_scale = 3;
  capped = capped_plan(p, plan, under(cap));
  EXPECT_EQ(capped.p_scale, 2);
  EXPECT_EQ(capped.v_scale, 3);
  for (const int mine : {0, 1})
    for (const int tops : {0, 1}) {
      plan.isolates_masked_nan = mine, cap.isolates_masked_nan = tops;
      EXPECT_EQ(capped_plan(p, plan, under(cap)).isolates_masked_nan, mine | tops);
    }
}

TEST(CappedPlan, NoPlanIsStricterThanTheBest) {
  const attn_plan best = best_plan();
  EXPECT_EQ((std::array{best.num_splits, best.rescales, best.merges}), (std::array<int64_t, 3>{1, 1, 1}));
  EXPECT_EQ(
      (std::array{best.accumulator, best.exp_class, best.log_class, best.rcp_class, best.tanh_class}),
      (std::array<int32_t, 5>{ATTN_ACC_FFMA, ATTN_EXP_EXP2F, ATTN_LOG_LOGF, ATTN_RCP_EXACT, ATTN_TANH_TANHF}));
  EXPECT_EQ(
      (std::array{best.scale_mode, best.p_format, best.partial_format, best.flush_to_zero, best.merge_rule}),
      (std::array<int32_t, 5>{ATTN_SCALE_SEPARATE, ATTN_FORMAT_F32, ATTN_FORMAT_F32, 0, ATTN_MERGE_BY_WEIGHT}));
  const attn_plan top = documented_cap();
  EXPECT_EQ((std::array<int64_t, 4>{static_cast<int64_t>(top.size), top.num_splits,
                                    static_cast<int64_t>(top.workspace_align), top.flush_to_zero}),
            (std::array<int64_t, 4>{sizeof top, 1, 1, 1}));
}

TEST(CappedPlan, WithoutACapIsWhatWasDeclared) {
  Random random(2);
  for (int n = 0; n < 100; ++n) {
    const attn_plan plan = any_plan(random),
                    capped = capped_plan(problem_of(100, ATTN_F16), plan, documented());
    EXPECT_EQ(std::memcmp(&capped, &plan, sizeof plan), 0);
  }
}

}  // namespace
}  // namespace attnfuzz
