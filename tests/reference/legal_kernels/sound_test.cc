// Regressions of false alarms that an audit of the bound found. Each is a right kernel,
// with data on which the oracle once called it wrong. If the kernel must declare what it
// does, it is still called wrong without the declaration.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "reference/numbers/formats.h"
#include "reference/partials.h"
#include "tests/reference/legal_kernels/declared.h"
#include "tests/reference/legal_kernels/legal_cases.h"
#include "tests/reference/legal_kernels/legal_kernel.h"

namespace attnfuzz {
namespace {

// The largest ratio of a case. Something must be judged.
double worst(Case& c, const Choices& how, const Calibration& calibration = documented()) {
  const Worst seen = worst_of(evaluate(c.problem, c.tensors(), c.plan, calibration), run_as_planned(c, how));
  EXPECT_GT(seen.judged, 0) << "the oracle judges no element of this case";
  return std::max(seen.o, seen.lse);
}

// 1. splitk: a split whose weight is e^-84 / 64 but whose value is 2^127 may be flushed away.
TEST(Sound, MergeWeightFlushes) {
  Case c({.dtype = ATTN_BF16, .seq_q = 1, .seq_k = 65, .dim_qk = 1, .dim_v = 1, .tile_k = 64, .num_splits = 2});
  c.problem.scale = 1;
  c.set_q(0, 0, 0, 0, 1);
  c.set_k(0, 0, 64, 0, -84);
  c.set_v(0, 0, 64, 0, 0x1p127f);
  for (const int32_t rule : {ATTN_MERGE_BY_WEIGHT, ATTN_MERGE_BY_LSE, ATTN_MERGE_ONE_BY_ONE}) {
    c.plan.merge_rule = rule;
    const Reference r = c.reference();
    EXPECT_NEAR(r[TensorId::kO].value[0], 0.8787, 0.001);
    EXPECT_LE(r[TensorId::kO].ratio(0, 0, 0.0f), 1) << "flushed";
    EXPECT_GT(r[TensorId::kO].ratio(0, 0, 0x1p13f), 1) << "but no larger";
  }
  const float o[] = {0, 0x1p127f}, lse[] = {std::log(64.0f), -84.0f};
  for (const int32_t rule : {ATTN_MERGE_BY_WEIGHT, ATTN_MERGE_BY_LSE}) {
    c.plan.merge_rule = rule;
    const Reference r = bound_reduce(c.problem, c.plan, documented(), 2, o, lse);
    EXPECT_LE(r[TensorId::kO].ratio(0, 0, 0.0f), 1) << "the reduction alone, rule " << rule;
  }
}

// 2. fa1 and splitk: a fused scale misplaces the only weight by 2^30, and 2^100 of it overflows.
TEST(Sound, FusedScaleMisplacesHugeValues) {
  Case c({.dtype = ATTN_BF16, .seq_q = 1, .seq_k = 1, .dim_qk = 1, .dim_v = 1});
  c.problem.scale = 1;
  c.set_q(0, 0, 0, 0, 32768);
  c.set_k(0, 0, 0, 0, 16512);
  c.set_v(0, 0, 0, 0, 0x1p100f);
  for (const bool all : {false, true}) {
    if (all) declare_all(&c.plan);
    const Reference r = c.reference();
    EXPECT_EQ(r.unconstrained, 1) << "it may overflow: nothing is judged";
    EXPECT_LE(r[TensorId::kO].ratio(0, 0, INFINITY), 1);
  }
  c.set_v(0, 0, 0, 0, 1);
  EXPECT_GT(c.reference()[TensorId::kO].ratio(0, 0, INFINITY), 1) << "1 does not overflow";
}

// 3. The H200's tensor core aligns an fp16 subnormal as if it were 2^-14.
TEST(Sound, SubnormalsAreAlignedByTheirNominalExponent) {
  Case c({.seq_q = 1, .seq_k = 1, .dim_qk = 16, .dim_v = 1});
  c.problem.scale = 4096;
  c.set_q(0, 0, 0, 0, 0x1p-24f);
  c.set_k(0, 0, 0, 0, 0x1p15f);
  for (int64_t t = 1; t < 16; ++t) c.set_q(0, 0, 0, t, 1.999f * 0x1p-13f), c.set_k(0, 0, 0, t, 0x1p-12f);
  for (const bool all : {false, true}) {
    if (all) declare_all(&c.plan);
    EXPECT_LE(worst(c, {.mma = Arithmetic::kHopper, .exp_units = 1}, h200()), 1);
    // A device that aligns by value has the tighter bound.
    Calibration by_value = h200();
    by_value.mma_least_f16 = 0;
    EXPECT_GT(worst(c, {.mma = Arithmetic::kHopper, .exp_units = 1}, by_value), 1);
  }
  // The same with P: e^-12 is 2^-17.3, a subnormal among normal numbers.
  Case p({.seq_q = 1, .seq_k = 16, .dim_qk = 1, .dim_v = 1});
  p.problem.scale = 1;
  p.set_q(0, 0, 0, 0, -12);
  for (int64_t j = 1; j < 16; ++j) p.set_k(0, 0, j, 0, 1), p.set_v(0, 0, j, 0, 65504);
  EXPECT_LE(worst(p, {.mma = Arithmetic::kHopper, .exp_units = 1}, h200()), 1);
}

// 4. A partial in fp16 overflows in a split of tiny weight: inf * e^-20.
TEST(Sound, Fp16PartialsOverflow) {
  Case c({.seq_q = 1, .seq_k = 128, .dim_qk = 1, .dim_v = 1, .tile_k = 64, .num_splits = 2});
  c.problem.scale = 1;
  c.set_q(0, 0, 0, 0, 1);
  for (int64_t j = 0; j < 64; ++j) c.set_k(0, 0, j, 0, -20), c.set_v(0, 0, j, 0, 65504);
  c.plan.partial_format = ATTN_FORMAT_OF_INPUT;
  EXPECT_LE(c.reference()[TensorId::kO].ratio(0, 0, INFINITY), 1);
  c.plan.partial_format = ATTN_FORMAT_F32;
  EXPECT_GT(c.reference()[TensorId::kO].ratio(0, 0, INFINITY), 1) << "nothing overflows in fp32";
  c.plan.partial_format = ATTN_FORMAT_OF_INPUT;
  for (int64_t j = 0; j < 64; ++j) c.set_v(0, 0, j, 0, 30000);
  EXPECT_GT(c.reference()[TensorId::kO].ratio(0, 0, INFINITY), 1) << "nor does half of the largest number";
}

// 5. On uninformative rows the LSE is also off by the whole error of the scores.
TEST(Sound, MergesOfUninformativeRows) {
  double most = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Case c(
        {.dtype = ATTN_BF16, .seq_q = 2, .seq_k = 40, .dim_qk = 64, .dim_v = 4, .tile_k = 8, .num_splits = 5});
    c.fill(Regime::kGaussian, seed);
    for (uint16_t& v : c.v) v = encode16(ATTN_BF16, 1.2345f);
    c.problem.scale = 4e5f;
    c.plan.merge_rule = ATTN_MERGE_BY_LSE;
    most = std::max(most, worst(c, {.seed = seed, .mma = Arithmetic::kTruncate}));
  }
  EXPECT_LE(most, 1);
}

// 6. Merged one by one, each merge rounds the LSE that the next begins with.
TEST(Sound, MergesOneByOne) {
  for (const float score : {2e5f, -2e5f}) {
    Case c({.seq_q = 1, .seq_k = 512, .dim_qk = 1, .dim_v = 1, .tile_k = 1, .num_splits = 512});
    c.problem.scale = score;
    c.set_q(0, 0, 0, 0, 1);
    for (int64_t j = 0; j < 512; ++j) c.set_k(0, 0, j, 0, 1), c.set_v(0, 0, j, 0, 1);
    c.plan.merge_rule = ATTN_MERGE_ONE_BY_ONE;
    EXPECT_LE(worst(c, {}), 1);
    // Declared as merged at once the same kernel is wrong.
    const Output got = run_as_planned(c, {});
    c.plan.merge_rule = ATTN_MERGE_BY_WEIGHT;
    EXPECT_GT(worst_of(c.reference(), got).o, 1);
  }
}

// 7. Two accumulators over alternating tiles: neither holds a sum over consecutive keys.
TEST(Sound, AlternatingAccumulatorsOfLongRows) {
  Case c({.seq_q = 1, .seq_k = 16384, .dim_qk = 1, .dim_v = 1, .tile_k = 128});
  c.problem.scale = 1;
  c.set_q(0, 0, 0, 0, 1);
  // Every second block of 256 keys cancels the block before, but each step rounds.
  const float p =
      std::exp(static_cast<float>(decode(ATTN_F16, std::vector{encode16(ATTN_F16, -0.3f)}.data(), 0)));
  for (int64_t j = 0; j < 16384; ++j) {
    const bool odd = j / 256 % 2;
    c.set_k(0, 0, j, 0, odd ? 0 : -0.3f);
    c.set_v(0, 0, j, 0, odd ? -1.2345f * p : 1.2345f);
  }
  declare_all(&c.plan);
  c.plan.sum_lanes = 0;
  double most = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const Choices how{.seed = 4 * seed, .mma = Arithmetic::kTruncate};
    c.plan.key_order = ATTN_KEYS_ANY, c.plan.max_rule = ATTN_MAX_WHOLE;
    const Output got = run_as_planned(c, how);
    const Worst seen = worst_of(c.reference(), got);
    EXPECT_EQ(seen.judged, 2);
    EXPECT_LE(seen.o, 1);
    c.plan.key_order = ATTN_KEYS_ASCENDING;
    most = std::max(most, worst_of(c.reference(), got).o);
  }
  EXPECT_GT(most, 1) << "a plan that declares one accumulator has the tighter bound";
}

// 8. A scaled score, then exp2(fma(x, log2 e, -mu)): mu is rounded, as with a fused scale.
TEST(Sound, SeparateScaleWithFma) {
  Case c({.seq_q = 1, .seq_k = 2, .dim_qk = 1, .dim_v = 1, .bias_dtype = ATTN_F32});
  c.problem.scale = 1;
  // From 2^27.4 on misplaced weights may overflow P. Then nothing is judged, and nothing may be.
  int64_t judged = 0, overflow = 0, needed = 0;
  for (float size = 0x1p26f; size < 0x1p30f; size *= 1.11f) {
    c.bias = {size, size};
    c.set_v(0, 0, 0, 0, 1);
    c.set_v(0, 0, 1, 0, 2);
    c.plan.scale_mode = ATTN_SCALE_SEPARATE_FMA;
    const Reference declared = c.reference();
    const Output got = run_as_planned(c, {});
    const Worst seen = worst_of(declared, got);
    EXPECT_LE(std::max(seen.o, seen.lse), 1) << size;
    judged += seen.judged > 0;
    overflow += declared.unconstrained;
    c.plan.scale_mode = ATTN_SCALE_SEPARATE;
    needed += !(worst_of(c.reference(), got).o <= 1);
  }
  EXPECT_GE(judged, 8);
  EXPECT_GE(overflow, 8);
  EXPECT_GT(needed, 0);
}

// 9. Methods that a plan could not declare.
TEST(Sound, SumOfRoundedP) {
  for (const int32_t dtype : {ATTN_F16, ATTN_BF16}) {
    // All keys but one have the same weight: all are rounded the same way.
    double undeclared = 0;
    for (int step = 0; step < 40; ++step) {
      Case c({.dtype = dtype, .seq_q = 1, .seq_k = 400, .dim_qk = 1, .dim_v = 1});
      c.problem.scale = 1;
      c.set_q(0, 0, 0, 0, 1);
      const float score = -0.05f - 0.015f * static_cast<float>(step);
      for (int64_t j = 1; j < 400; ++j) c.set_k(0, 0, j, 0, score), c.set_v(0, 0, j, 0, 1);
      c.plan.max_rule = ATTN_MAX_WHOLE;
      c.plan.sum_rule = ATTN_SUM_OF_ROUNDED_P;
      EXPECT_LE(worst(c, {}), 1);
      const Output got = run_as_planned(c, {});
      c.plan.sum_rule = ATTN_SUM_OF_EXP;
      undeclared = std::max(undeclared, worst_of(c.reference(), got).lse);
    }
    EXPECT_GT(undeclared, 3) << "dtype " << dtype;
  }
}

TEST(Sound, OtherMethodsThatAPlanCouldNotDeclare) {
  const struct {
    const char* what;
    void (*declare)(attn_plan*);
  } choices[] = {
      {"a polynomial of degree 3", [](attn_plan* p) { p->exp_error = 0x1p-13f; }},
      {"P in e4m3", [](attn_plan* p) { p->p_format = ATTN_FORMAT_E4M3, p->p_scale = 256; }},
      {"P in e4m3, of a maximum that may lag",
       [](attn_plan* p) {
         p->p_format = ATTN_FORMAT_E4M3, p->p_scale = 256;
         p->max_rule = ATTN_MAX_UNKNOWN;
       }},
      {"P in e5m2", [](attn_plan* p) { p->p_format = ATTN_FORMAT_E5M2; }},
      {"P in bf16", [](attn_plan* p) { p->p_format = ATTN_FORMAT_BF16; }},
      {"P and V in bf16", [](attn_plan* p) { p->p_format = p->v_format = ATTN_FORMAT_BF16; }},
      {"a scale of V", [](attn_plan* p) { p->v_format = ATTN_FORMAT_E4M3, p->v_scale = 3; }},
      {"conversions that cut off", [](attn_plan* p) { p->conversion = ATTN_CONVERT_FAITHFUL; }},
  };
  for (const auto& choice : choices) {
    int needed = 0;
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      Case c({.seq_q = 4, .seq_k = 100, .dim_qk = 16, .dim_v = 16});
      c.fill(Regime::kGaussian, seed);
      declare_all(&c.plan);
      const attn_plan plain = c.plan;
      choice.declare(&c.plan);
      const Output got = run_as_planned(c, {.seed = seed, .mma = Arithmetic::kTruncate});
      const Reference declared = c.reference();
      const Worst seen = worst_of(declared, got);
      EXPECT_EQ(seen.judged, 4 * (16 + 1)) << choice.what << ": of four rows, all";
      EXPECT_EQ(declared.uninformative, 0) << choice.what;
      EXPECT_LE(std::max(seen.o, seen.lse), 1) << choice.what;
      c.plan = plain;
      const Worst undeclared = worst_of(c.reference(), got);
      needed += undeclared.o > 1 || undeclared.lse > 1;
    }
    EXPECT_GT(needed, 0) << choice.what;
  }
}

// Weights of partials, their products and both sums are in 16 bits.
TEST(Sound, MergesIn16Bits) {
  for (const int32_t dtype : {ATTN_F16, ATTN_BF16}) {
    int needed = 0;
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      Case c({.dtype = dtype,
              .seq_q = 2,
              .seq_k = 64,
              .dim_qk = 16,
              .dim_v = 16,
              .tile_k = 16,
              .num_splits = 2 + static_cast<int64_t>(seed % 3)});
      c.fill(seed % 5 == 0 ? Regime::kPeaked : seed % 5 == 1 ? Regime::kUniform : Regime::kGaussian, seed);
      // Down to numbers that are all subnormal in fp16.
      const int below = seed % 3 == 0 ? static_cast<int>(seed % 24) : 0;
      for (uint16_t& v : c.v) v = encode16(dtype, static_cast<float>(std::ldexp(decode(dtype, &v, 0), -below)));
      c.plan.split_tiles = 2;
      if (seed % 2) declare_all(&c.plan);
      c.plan.partial_format = c.plan.merge_format = ATTN_FORMAT_OF_INPUT;
      const Output got = run_as_planned(c, {.seed = seed});
      const Worst seen = worst_of(c.reference(), got);
      EXPECT_GT(seen.judged, 0) << "dtype " << dtype << " seed " << seed;
      EXPECT_LE(seen.o, 1) << "dtype " << dtype << " seed " << seed;
      c.plan.merge_format = ATTN_FORMAT_F32;
      needed += worst_of(c.reference(), got).o > 1;
    }
    EXPECT_GT(needed, 5) << "dtype " << dtype;
  }
}

// The bound is not looser than necessary: seven of eight splits have the same weight, and so the same error.
TEST(Sound, MergesIn16BitsWithEqualErrors) {
  for (const int32_t dtype : {ATTN_F16, ATTN_BF16}) {
    int needed = 0;
    double most = 0;
    Random random(5);
    for (uint64_t seed = 1; seed <= 6000; ++seed) {
      Case c({.dtype = dtype, .seq_q = 1, .seq_k = 16, .dim_qk = 2, .dim_v = 1, .tile_k = 2, .num_splits = 8});
      c.problem.scale = 1;
      c.set_q(0, 0, 0, 0, 1), c.set_q(0, 0, 0, 1, 1);
      const auto between = [&](double low, double high) {
        return static_cast<float>(low + (high - low) * random.uniform());
      };
      // Just above a power of two, where a rounding is largest.
      const float split = between(-0.69, -0.6), second = between(-6, -3);
      const float first_v = between(1, 1.1), second_v = between(1, 1.1);
      for (int64_t j = 0; j < 16; ++j) {
        c.set_k(0, 0, j, 0, j < 2 ? 0 : split), c.set_k(0, 0, j, 1, j % 2 ? second : 0);
        c.set_v(0, 0, j, 0, j % 2 ? second_v : first_v);
      }
      declare_all(&c.plan);
      c.plan.partial_format = c.plan.merge_format = ATTN_FORMAT_OF_INPUT;
      c.plan.p_format = ATTN_FORMAT_F32;
      const Output got = run_as_planned(c, {.seed = seed, .mma = Arithmetic::kChain});
      const Worst seen = worst_of(c.reference(), got);
      EXPECT_EQ(seen.judged, 2);
      most = std::max(most, seen.o);
      c.plan.merge_format = ATTN_FORMAT_F32;
      needed += worst_of(c.reference(), got).o > 1;
    }
    EXPECT_LE(most, 1) << "dtype " << dtype;
    EXPECT_GT(most, 0.6) << "dtype " << dtype;
    EXPECT_GT(needed, 200) << "dtype " << dtype;
  }
}

// 10. Flushing takes a subnormal K, and a subnormal scale, for 0.
TEST(Sound, SubnormalKeysAndScalesAreFlushed) {
  Case k({.dtype = ATTN_BF16, .seq_q = 1, .seq_k = 2, .dim_qk = 1, .dim_v = 1});
  k.problem.scale = 0x1p127f;
  k.set_q(0, 0, 0, 0, 1);
  k.set_k(0, 0, 0, 0, 0x1.8p-127f);
  k.set_v(0, 0, 0, 0, 1);
  Case scale({.dtype = ATTN_BF16, .seq_q = 1, .seq_k = 2, .dim_qk = 1, .dim_v = 1});
  scale.problem.scale = 0x1.8p-127f;
  scale.set_q(0, 0, 0, 0, 0x1p60f);
  scale.set_k(0, 0, 0, 0, 0x1p66f);
  scale.set_v(0, 0, 0, 0, 1);
  for (Case* c : {&k, &scale}) {
    for (const int32_t mode : {ATTN_SCALE_FUSED, ATTN_SCALE_SEPARATE}) {
      c->plan.scale_mode = mode;
      EXPECT_LE(worst(*c, {}), 1) << (c == &k ? "K" : "scale");
    }
  }
  scale.plan.flush_to_zero = 0;
  EXPECT_GT(scale.reference()[TensorId::kO].ratio(0, 0, 0.5f), 1)
      << "a plan without flushing has the tighter bound";
}

// Random legal kernels must give no further false alarm (reference_audit legal runs any number of them).
TEST(Sound, EveryChoiceThatAPlanHas) {
  const LegalTally tally = run_legal_cases(1, 600);
  EXPECT_EQ(tally.violation, "");
  EXPECT_EQ(tally.unlikely, 0);
  EXPECT_LT(tally.uninformative + tally.unconstrained, tally.rows / 5);
  for (const auto& [choice, rows] : tally.of_choice) {
    EXPECT_GT(rows.all, 40) << choice;
    EXPECT_LT(rows.all - rows.bounded, rows.all / 3) << choice << ": rows that are not judged by their bounds";
  }
}

}  // namespace
}  // namespace attnfuzz
