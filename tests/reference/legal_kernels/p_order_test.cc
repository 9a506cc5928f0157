// P is rounded before it is divided by the row's sum, or after that (attn_plan.p_order). The difference shows
// in weights that are normal numbers of P's format in one order and subnormal in the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "reference/rows/row_terms.h"
#include "tests/reference/gradients/gradient_case.h"
#include "tests/reference/legal_kernels/legal_kernel.h"
#include "tests/reference/support.h"

namespace attnfuzz {
namespace {

// A format of P, with the distance below the maximum at which exp(x) becomes subnormal or 0 in it.
struct OfP {
  const char* name;
  int32_t dtype, format;
  float scale;
  double below;
};
constexpr OfP kFormats[] = {
    {"fp16", ATTN_F16, ATTN_FORMAT_OF_INPUT, 0, 14}, {"fp16, scaled", ATTN_F16, ATTN_FORMAT_OF_INPUT, 16, 17},
    {"e4m3", ATTN_F16, ATTN_FORMAT_E4M3, 0, 6},      {"e4m3, scaled", ATTN_F16, ATTN_FORMAT_E4M3, 256, 11},
    {"e5m2", ATTN_F16, ATTN_FORMAT_E5M2, 0, 12},     {"bf16", ATTN_BF16, ATTN_FORMAT_OF_INPUT, 0, 87}};

// One row. A tenth of its keys have large weights and a value of 0, the others weights around the least numbers
// of P.
Case small_weights(const OfP& of, uint64_t seed) {
  Random random(seed);
  const int64_t keys = 2 + random.below(300);
  Case c({.dtype = of.dtype, .seq_q = 1, .seq_k = keys, .dim_qk = 1, .dim_v = 3, .tile_k = 64});
  c.problem.scale = 1;
  c.set_q(0, 0, 0, 0, 1);
  const double below = of.below * (0.3 + random.uniform());
  for (int64_t j = 0; j < keys; ++j) {
    const bool top = j == 0 || random.below(10) == 0;
    c.set_k(0, 0, j, 0, static_cast<float>(top ? 0 : -below + 2 * random.uniform()));
    for (int64_t column = 0; column < 3 && !top; ++column)
      c.set_v(0, 0, j, column, static_cast<float>((column == 0 ? 2 : 4000) * (random.uniform() - 0.2)));
  }
  c.plan.p_format = of.format, c.plan.p_scale = of.scale;
  c.plan.num_splits = 1 + random.below(2);
  c.plan.split_tiles = c.plan.num_splits > 1 ? 3 : 0;
  c.plan.max_rule = random.below(2) ? ATTN_MAX_WHOLE : ATTN_MAX_UNKNOWN;
  c.plan.conversion = static_cast<int32_t>(random.below(4) == 0);
  return c;
}

struct Counts {
  int declared = 0, open = 0, as_flash = 0, found = 0, found_open = 0;
};
// Judges a kernel that rounds normalised weights: by its declaration, without one, and as if it declared the
// other order. `found`: the same kernel with small P flushed.
Counts judge_textbook(const OfP& of, uint64_t seeds) {
  Counts counts;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    Case c = small_weights(of, seed);
    const auto wrong = [&](int32_t order, const Output& got) {
      c.plan.p_order = order;
      const Worst seen = worst_of(c.reference(), got);
      EXPECT_EQ(seen.judged, 4) << of.name << " seed " << seed;
      return !(seen.o <= 1 && seen.lse <= 1);
    };
    c.plan.p_order = ATTN_P_NORMALISED;
    const Output right = run_as_planned(c, {.seed = seed}),
                 flushed = run_as_planned(c, {.seed = seed, .wrong = Wrong::kFlushP});
    counts.declared += wrong(ATTN_P_NORMALISED, right);
    counts.open += wrong(ATTN_P_ANY, right);
    counts.as_flash += wrong(ATTN_P_UNNORMALISED, right);
    counts.found += wrong(ATTN_P_NORMALISED, flushed);
    counts.found_open += wrong(ATTN_P_ANY, flushed);
  }
  return counts;
}

TEST(POrder, ATextbookKernelPassesWithTheDeclarationAndWithout) {
  for (const OfP& of : kFormats) {
    const Counts counts = judge_textbook(of, 400);
    EXPECT_EQ(counts.declared, 0) << of.name;
    EXPECT_EQ(counts.open, 0) << of.name;
    if (of.dtype == ATTN_BF16) continue;  // its least numbers are so small that other errors hide them
    EXPECT_GT(counts.as_flash, 40) << of.name;
    EXPECT_GT(counts.found, 40) << of.name;
    EXPECT_GT(counts.found_open, 40) << of.name;
  }
}

// The kernel of the report: 0 instead of 5.6e-8, because a weight below 2^-25 is rounded to 0.
TEST(POrder, AWeightThatIsRoundedToZero) {
  Case c({.seq_q = 1, .seq_k = 101, .dim_qk = 1, .dim_v = 1});
  c.problem.scale = 1;
  c.set_q(0, 0, 0, 0, 1);
  c.set_k(0, 0, 100, 0, -12.75f), c.set_v(0, 0, 100, 0, 2);
  const auto ratio = [&](int32_t order) {
    c.plan.p_order = order;
    const Reference r = c.reference();
    EXPECT_NEAR(r[TensorId::kO].value[0], 5.8e-8, 1e-9);
    return r[TensorId::kO].ratio(0, 0, 0.0f);
  };
  EXPECT_GT(ratio(ATTN_P_UNNORMALISED), 1);
  EXPECT_LE(ratio(ATTN_P_NORMALISED), 1);
  EXPECT_LE(ratio(ATTN_P_ANY), 1);
}

// The bound of O less what a plan with P in fp32 needs, for one key of weight e^x among `others`, all of value
// 0.
double charged(float x, int64_t others, int32_t order, int32_t conversion = ATTN_CONVERT_NEAREST) {
  Case c({.seq_q = 1, .seq_k = others + 1, .dim_qk = 1, .dim_v = 1});
  c.problem.scale = 1;
  c.set_q(0, 0, 0, 0, 1);
  c.set_k(0, 0, others, 0, x), c.set_v(0, 0, others, 0, 32768);
  c.plan.scale_mode = ATTN_SCALE_SEPARATE;
  c.plan.accumulator = ATTN_ACC_FFMA;  // a tensor core aligns subnormals of P as if they were larger
  c.plan.p_order = order, c.plan.conversion = conversion;
  const double all = c.reference()[TensorId::kO].bound[0];
  c.plan.p_format = ATTN_FORMAT_F32;
  return (all - c.reference()[TensorId::kO].bound[0]) / 32768;
}

TEST(POrder, AKeyCostsHalfOfTheLeastNumberAndAtMostItsWeight) {
  const double eta = 0x1p-25;
  for (const int64_t others : {int64_t{1}, int64_t{1000}}) {
    const double l = static_cast<double>(others);
    for (const float x : {-6.0f, -9.0f, -12.0f, -20.0f, -30.0f}) {
      const double w = std::exp(static_cast<double>(x)) / (l + std::exp(static_cast<double>(x)));
      const double unit = 0x1p-11 * w;
      const double flash = unit + eta / (l + std::exp(static_cast<double>(x))),
                   textbook = unit + std::min(eta, w);
      EXPECT_NEAR(charged(x, others, ATTN_P_UNNORMALISED), flash, 0.003 * flash) << x << " of " << others;
      EXPECT_NEAR(charged(x, others, ATTN_P_NORMALISED), textbook, 0.003 * textbook) << x << " of " << others;
      EXPECT_NEAR(charged(x, others, ATTN_P_ANY), std::max(flash, textbook), 0.003 * std::max(flash, textbook))
          << x << " of " << others;
      // Rounded up, the least weight becomes the least number.
      const double faithful = charged(x, others, ATTN_P_NORMALISED, ATTN_CONVERT_FAITHFUL);
      EXPECT_NEAR(faithful, 2 * unit + 2 * eta, 0.01 * faithful) << x << " of " << others;
    }
  }
}

// The bounds of kernels that divide at the end are, bit by bit, those that they were before plans had this
// field.
TEST(POrder, TheBoundOfTheFlashOrderIsUnchanged) {
  ErrorModel model;
  model.p_unit = 0x1p-11, model.p_tiny = 0x1p-25, model.least_value = 0x1p-14, model.product_unit = 0x1p-23;
  ASSERT_EQ(model.p_order, ATTN_P_UNNORMALISED);
  for (const double l : {1.0, 3.7, 1e4}) {
    const MeanTerms terms = mean_terms(model, {3, 1e-6, 1.25, 0.01}, 1e-5);
    const PlainShares of = shares_of_plain(terms, 1e-5, 0.999, 100, l);
    EXPECT_EQ(of.constant, constant_of(terms, 100, l));
    EXPECT_EQ(of.tiny, (terms.p_tiny + terms.weight_tiny) / l);
    for (const double w : {0.0, 1e-300, 0x1p-26, 1.0})
      EXPECT_EQ(of.charge(w), (of.rounding + of.partial) * w + of.tiny);
  }
}

TEST(POrder, OtherFieldsSayThatTheSumDividesAtTheEnd) {
  attn_plan plan = {};
  EXPECT_EQ(p_order_of(plan), ATTN_P_ANY);
  plan.max_rule = ATTN_MAX_WHOLE;
  EXPECT_EQ(p_order_of(plan), ATTN_P_ANY);
  plan.max_rule = ATTN_MAX_RUNNING;
  EXPECT_EQ(p_order_of(plan), ATTN_P_UNNORMALISED);
  plan.p_order = ATTN_P_NORMALISED;
  EXPECT_EQ(p_order_of(plan), ATTN_P_NORMALISED);
  plan = {}, plan.sum_rule = ATTN_SUM_OF_ROUNDED_P;
  EXPECT_EQ(p_order_of(plan), ATTN_P_UNNORMALISED);
  plan = {}, plan.merge_format = ATTN_FORMAT_OF_INPUT;
  EXPECT_EQ(p_order_of(plan), ATTN_P_UNNORMALISED);
}

TEST(POrder, IsAnAssumptionIfPIsRoundedAndNothingSaysWhen) {
  Case c({});
  const auto assumed = [&] {
    const ErrorModel model = make_error_model(c.problem, c.plan, documented());
    return std::ranges::count(model.assumptions, Assumption::Part::kOrderOfP, &Assumption::part);
  };
  c.plan.p_order = ATTN_P_ANY;
  EXPECT_EQ(assumed(), 1);
  EXPECT_EQ(make_error_model(c.problem, c.plan, documented()).assumptions.back().text(),
            "rounding of P not known: before or after the division by the sum assumed");
  c.plan.p_format = ATTN_FORMAT_F32;
  EXPECT_EQ(assumed(), 0);
  c.plan.p_format = ATTN_FORMAT_OF_INPUT;
  for (const int32_t order : {ATTN_P_UNNORMALISED, ATTN_P_NORMALISED}) {
    c.plan.p_order = order;
    EXPECT_EQ(assumed(), 0);
  }
}

// P is predicted only if it is known to be exp(x - max).
TEST(POrder, PIsPredictedOnlyInTheFlashOrder) {
  Case c({});
  c.plan.key_order = ATTN_KEYS_ASCENDING, c.plan.max_rule = ATTN_MAX_WHOLE;
  const auto predicted = [&](int32_t order) {
    c.plan.p_order = order;
    return make_error_model(c.problem, c.plan, documented()).p_predicted != ATTN_NONE;
  };
  EXPECT_TRUE(predicted(ATTN_P_UNNORMALISED));
  EXPECT_FALSE(predicted(ATTN_P_NORMALISED));
  EXPECT_FALSE(predicted(ATTN_P_ANY));
}

// A backward pass rounds P = exp(x - LSE). Declared, the rounding of a small P costs dV at most P itself.
TEST(POrder, OfDv) {
  const auto bound = [](int32_t order, int32_t conversion) {
    Small s(ATTN_F16, 3);
    s.p.batch = s.p.heads_q = s.p.heads_kv = s.p.seq_q = s.p.seq_k = s.p.dim_qk = s.p.dim_v = 1;
    s.p.softcap = 0, s.p.causal = s.p.has_mask = s.p.has_key_lengths = 0, s.p.bias_dtype = ATTN_NONE;
    s.p.window_left = s.p.window_right = -1;
    s.p.scale = 1;
    s.q.set(ATTN_F16, 0, 1), s.k.set(ATTN_F16, 0, 0), s.dout.set(ATTN_F16, 0, 32768);
    s.lse[0] = 30;  // P = 9.4e-14
    s.plan.p_order = order, s.plan.conversion = conversion;
    return s.due()[TensorId::kDv].bound[0];
  };
  const double p = std::exp(-30.0) * 32768, eta = 0x1p-25 * 32768;
  EXPECT_GT(bound(ATTN_P_ANY, ATTN_CONVERT_NEAREST), eta);
  EXPECT_EQ(bound(ATTN_P_UNNORMALISED, ATTN_CONVERT_NEAREST), bound(ATTN_P_ANY, ATTN_CONVERT_NEAREST));
  EXPECT_LT(bound(ATTN_P_NORMALISED, ATTN_CONVERT_NEAREST), 1.1 * p + 0x1p-24);  // and dV's own rounding
  EXPECT_GT(bound(ATTN_P_NORMALISED, ATTN_CONVERT_FAITHFUL), 2 * eta);
}

// A backward pass that runs the forward pass itself keeps the order that its plan implies.
TEST(POrder, OfAForwardPassThatIsRunAgain) {
  const auto bound = [](int32_t order, int32_t max_rule) {
    Small s(ATTN_F16, 5);
    s.plan.saved = ATTN_SAVED_RECOMPUTED;
    s.plan.key_order = ATTN_KEYS_ASCENDING, s.plan.max_rule = max_rule, s.plan.p_order = order;
    const Reference due = s.due();
    const std::vector<double>& bounds = due[TensorId::kDq].bound;
    return std::accumulate(bounds.begin(), bounds.end(), 0.0);
  };
  const double flash = bound(ATTN_P_UNNORMALISED, ATTN_MAX_UNKNOWN);
  EXPECT_EQ(bound(ATTN_P_ANY, ATTN_MAX_RUNNING), flash);
  EXPECT_GT(bound(ATTN_P_ANY, ATTN_MAX_UNKNOWN), flash);
}

}  // namespace
}  // namespace attnfuzz
