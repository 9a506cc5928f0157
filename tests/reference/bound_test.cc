// Compares the oracle's values and bounds with their definition in long double.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "reference/model/error_cap.h"
#include "reference/numbers/formats.h"
#include "reference/partials.h"
#include "reference/rows/row_terms.h"
#include "tests/reference/legal_kernels/declared.h"
#include "tests/reference/long_double.h"

namespace attnfuzz {
namespace {

// The bound is never below its definition, and above it only by the error of the series for e^x - 1.
void expect_bound(double bound, long double literal, const char* what) {
  const auto due = static_cast<double>(literal);
  if (!std::isfinite(due)) {
    EXPECT_EQ(bound, HUGE_VAL) << what;
    return;
  }
  const double ratio = bound / due;
  EXPECT_GE(ratio, 1 - 1e-8) << what;
  EXPECT_LE(ratio, 1 + 1e-5) << what;
}

void expect_agrees(Case& c, const std::string& what, const Calibration& device = documented(),
                   int64_t split = -1) {
  const Reference reference = split < 0
                                  ? evaluate(c.problem, c.tensors(), c.plan, device)
                                  : evaluate_partials(c.problem, c.tensors(), c.plan, device, split).reference;
  const attn_problem& p = c.problem;
  const Expected& o = reference[TensorId::kO];
  for (int64_t row = 0; row < reference.rows; ++row) {
    const int64_t i = row % p.seq_q, h = row / p.seq_q % p.heads_q, b = row / p.seq_q / p.heads_q;
    const LongDoubleRow exact = long_double_row(c, b, h, i, device, split);
    const RowState state = reference.state[static_cast<size_t>(row)];
    ASSERT_EQ(state == RowState::kDead, exact.dead) << what << " row " << row;
    if (state != RowState::kBounded && state != RowState::kUninformative) continue;
    ASSERT_EQ(state == RowState::kBounded, exact.informative) << what << " row " << row;
    const auto at = static_cast<size_t>(row);
    // A score of 1e3 carries an error of 1e-13 in double, and e^x passes it on.
    const double lse = reference[TensorId::kLse].value[at], slack = 1e-14 * (1 + std::abs(lse));
    EXPECT_NEAR(lse, static_cast<double>(exact.lse), slack * (1 + std::abs(lse))) << what;
    if (exact.informative) expect_bound(reference[TensorId::kLse].bound[at], exact.lse_bound, what.c_str());
    for (size_t col = 0; col < static_cast<size_t>(p.dim_v); ++col) {
      const size_t element = at * static_cast<size_t>(p.dim_v) + col;
      const double near = slack * static_cast<double>(exact.o_size[col]) + 1e-300;
      EXPECT_NEAR(o.value[element], static_cast<double>(exact.o[col]), near) << what << " row " << row;
      if (!o.exact.empty())
        EXPECT_NEAR(o.exact[element], static_cast<double>(exact.exact[col]), near) << what << " row " << row;
      expect_bound(o.bound[element], exact.o_bound[col], what.c_str());
    }
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Bound, IsItsDefinition) {
  Random random(5);
  for (const Regime regime : kRegimes)
    for (const int32_t dtype : {ATTN_F16, ATTN_BF16})
      for (int k = 0; k < 8; ++k) {
        Shape shape;
        shape.dtype = dtype;
        shape.heads_q = 2;
        shape.seq_q = 1 + random.below(6);
        shape.seq_k = 1 + random.below(70);
        shape.dim_qk = 1 + random.below(40);
        shape.dim_v = 1 + random.below(20);
        shape.causal = k % 2;
        shape.align = ATTN_BOTTOM_RIGHT;
        shape.num_splits = k % 4 < 2 ? 1 : 3;
        if (k % 3 == 1) shape.bias_dtype = ATTN_F32;
        if (k % 3 == 2) shape.softcap = 10;
        Case c(shape);
        c.fill(regime, random.bits());
        if (k > 4) c.plan.scale_mode = ATTN_SCALE_SEPARATE;
        if (k == 7) c.plan.p_format = ATTN_FORMAT_F32;
        expect_agrees(c, name_of(regime));
        if (HasFailure()) return;
      }
}

// Random declarations of plans, and windows of both alignments.
TEST(Bound, IsItsDefinitionForAnyPlan) {
  int known = 0, uninformative = 0;
  for (int k = 0; k < 700; ++k) {
    Random random(static_cast<uint64_t>(k) + 100);
    Shape shape;
    shape.dtype = k % 2 ? ATTN_F16 : ATTN_BF16;
    shape.heads_q = 2, shape.heads_kv = 1 + random.below(2);
    shape.seq_q = 1 + random.below(5), shape.seq_k = 1 + random.below(120);
    shape.dim_qk = 1 + random.below(60), shape.dim_v = 1 + random.below(20);
    shape.align = static_cast<int32_t>(random.below(2));
    if (random.below(2)) shape.window_left = random.below(30);
    if (random.below(2)) shape.window_right = random.below(30);
    shape.num_splits = random.below(2) ? 1 : 3;
    Case c(shape);
    const Regime regime = kRegimes[random.below(std::size(kRegimes))];
    c.fill(regime, random.bits());
    declare_any(&random, &c.plan);
    c.plan.mma_block = 16;
    if (k % 3 == 0) declare_all(&c.plan), c.plan.conversion = ATTN_CONVERT_NEAREST, c.plan.sum_rule = 0;
    expect_agrees(c, std::string(name_of(regime)) + ", case " + std::to_string(k));
    if (HasFailure()) return;
    const LongDoubleRow row = long_double_row(c, 0, 0, 0);
    known += row.known, uninformative += !row.informative;
  }
  EXPECT_GT(known, 100);
  EXPECT_GT(uninformative, 20);
}

// A fictitious device whose figures all differ, so that none can stand in for another.
Calibration any_device(Random* random) {
  Calibration any = random->below(2) ? documented() : h200();
  for (double* error :
       {&any.ex2, &any.exp2f, &any.expf, &any.fast_expf, &any.fast_expf_slope, &any.lg2, &any.logf,
        &any.fast_logf, &any.rcp, &any.rcp_exact, &any.tanhf, &any.mma_product, &any.mma_sum})
    *error = static_cast<double>(1 + random->below(64)) * 0x1p-26;
  any.mma_block = 4 << random->below(3);
  return any;
}

// Every class of instruction, converted Q and K, products in 8 bits, and chains; for whole rows and for single
// splits.
TEST(Bound, IsItsDefinitionOnAnyDevice) {
  for (int k = 0; k < 500; ++k) {
    Random random(static_cast<uint64_t>(k) + 9000);
    Shape shape;
    shape.dtype = k % 2 ? ATTN_F16 : ATTN_BF16;
    shape.seq_q = 1 + random.below(4), shape.seq_k = 1 + random.below(90);
    shape.dim_qk = 1 + random.below(60), shape.dim_v = 1 + random.below(20);
    shape.tile_k = 12 + 4 * random.below(6);
    shape.num_splits = random.below(2) ? 1 : 2 + random.below(2);
    shape.align = static_cast<int32_t>(random.below(2));
    if (random.below(3) == 0) shape.window_left = random.below(40);
    if (random.below(3) == 0) shape.window_right = random.below(40);
    const bool plain = random.below(2);
    if (!plain && random.below(2)) shape.bias_dtype = ATTN_F32;
    if (!plain && shape.bias_dtype == ATTN_NONE) shape.softcap = 0.5f + static_cast<float>(random.below(20));
    Case c(shape);
    const Regime regime = kRegimes[random.below(std::size(kRegimes))];
    c.fill(regime, random.bits());
    declare_any(&random, &c.plan);
    if (k % 3 == 0) declare_all(&c.plan), c.plan.conversion = ATTN_CONVERT_NEAREST, c.plan.sum_rule = 0;
    if (!plain) c.plan.scale_mode = random.below(2) ? ATTN_SCALE_SEPARATE : ATTN_SCALE_SEPARATE_FMA;
    c.plan.accumulator = random.below(3) ? ATTN_ACC_TENSOR : ATTN_ACC_FFMA;
    c.plan.mma_block = random.below(2) ? 0 : 4 << random.below(4);
    c.plan.exp_class = static_cast<int32_t>(random.below(5));
    c.plan.log_class = static_cast<int32_t>(random.below(4));
    c.plan.rcp_class = static_cast<int32_t>(random.below(3));
    c.plan.tanh_class = static_cast<int32_t>(random.below(3));
    if (random.below(4) == 0) c.plan.qk_format = random.below(2) ? ATTN_FORMAT_TF32 : ATTN_FORMAT_E4M3;
    if (random.below(2)) c.plan.sum_lanes = static_cast<int32_t>(random.below(6));
    if (random.below(3)) c.plan.rescales = random.below(4) ? 0 : random.below(12);
    if (random.below(8) == 0) c.problem.scale *= random.below(2) ? -1 : -3e5f;
    const Calibration device = any_device(&random);
    const std::string what = std::string(name_of(regime)) + ", case " + std::to_string(k);
    expect_agrees(c, what, device);
    for (int64_t s = 0; shape.num_splits > 1 && s < shape.num_splits; ++s)
      expect_agrees(c, what + ", split " + std::to_string(s), device, s);
    if (HasFailure()) return;
  }
}

// The products of one key cancel. Its score is too uncertain for P to be known, though its weight is tiny.
TEST(Bound, IsItsDefinitionWhereOneKeyIsUncertain) {
  int known = 0, unknown = 0;
  for (int step = 0; step < 40; ++step) {
    Case c({.seq_q = 1, .seq_k = 20, .dim_qk = 3, .dim_v = 5});
    c.fill(Regime::kGaussian, static_cast<uint64_t>(step) + 1);
    declare_all(&c.plan);
    c.problem.scale = 1;
    for (int64_t t = 0; t < 3; ++t) c.set_q(0, 0, 0, t, t == 2 ? 1 : 16);
    for (int64_t j = 0; j < 20; ++j)
      for (int64_t t = 0; t < 2; ++t) c.set_k(0, 0, j, t, 0);
    const auto size = static_cast<float>(400 * (step + 1));
    c.set_k(0, 0, 7, 0, size), c.set_k(0, 0, 7, 1, -size), c.set_k(0, 0, 7, 2, -14);
    expect_agrees(c, "step " + std::to_string(step));
    if (HasFailure()) return;
    (long_double_row(c, 0, 0, 0).known ? known : unknown)++;
  }
  EXPECT_GT(known, 5);
  EXPECT_GT(unknown, 5);
}

// fp32 subnormals are flushed, and scores are so large that this shows.
TEST(Bound, IsItsDefinitionForFlushedNumbers) {
  Random random(8);
  for (int k = 0; k < 120; ++k) {
    Case c({.dtype = ATTN_BF16,
            .seq_q = 2,
            .seq_k = 1 + random.below(30),
            .dim_qk = 1 + random.below(9),
            .dim_v = 2});
    c.fill(Regime::kGaussian, random.bits());
    c.plan.flush_to_zero = k % 7 != 0;
    c.plan.scale_mode = k % 2 ? ATTN_SCALE_FUSED : ATTN_SCALE_SEPARATE;
    const int what = k % 5;
    // Subnormal queries, or some or all keys subnormal, or none; or a scale near the least normal number.
    c.problem.scale = what != 3 ? 0x1p118f : (1 + 0.25f * static_cast<float>(random.below(6))) * 0x1p-126f;
    for (size_t at = 0; at < c.q.size(); ++at) {
      const double to = what == 0   ? 0x1p-126
                        : what == 1 ? 0x1p-114
                        : what == 2 ? 0x1p-66
                        : what == 3 ? 0x1p60
                                    : 4;
      c.q[at] = encode16(ATTN_BF16, static_cast<float>(random.gaussian() * to));
    }
    for (size_t at = 0; at < c.k.size(); ++at) {
      const double to = what == 0   ? 1
                        : what == 1 ? 0x1p-8
                        : what == 2 ? 0x1p-60
                        : what == 3 ? 0x1p61
                                    : 0x1p-129;
      const bool tiny = what == 1 && random.below(6) == 0;
      c.k[at] = encode16(ATTN_BF16, static_cast<float>(random.gaussian() * (tiny ? 0x1p-127 : to)));
    }
    expect_agrees(c, "case " + std::to_string(k));
    if (HasFailure()) return;
  }
}

// Products so inexact that a tile's errors add up to a half of its sum or to all of it, so that scores mean
// nothing.
TEST(Bound, IsItsDefinitionWhereProductsMeanNothing) {
  int informative = 0, known = 0;
  for (int64_t n = 4; n < 44; ++n) {
    Case c({.seq_q = 1, .seq_k = n, .dim_qk = 4, .dim_v = 3});
    c.fill(Regime::kZeroQuery, static_cast<uint64_t>(n));
    declare_all(&c.plan);
    Calibration device = documented();
    device.mma_product = 0x1p-5, device.mma_sum = 0x1p-40;
    expect_agrees(c, "keys: " + std::to_string(n), device);
    if (HasFailure()) return;
    const LongDoubleRow row = long_double_row(c, 0, 0, 0, device);
    informative += row.informative, known += row.known;
  }
  EXPECT_TRUE(0 < known && known < informative && informative < 40) << known << " of " << informative;
}

TEST(Bound, IsItsDefinitionForLongRows) {
  for (const int32_t order : {ATTN_KEYS_ANY, ATTN_KEYS_CONSECUTIVE, ATTN_KEYS_DESCENDING})
    for (const int64_t splits : {1, 2}) {
      Case c({.seq_q = 1, .seq_k = 4400, .dim_qk = 16, .dim_v = 2, .tile_k = 64, .num_splits = splits});
      c.fill(Regime::kGaussian, 3);
      c.plan.key_order = order;
      if (splits == 1) c.plan.partial_format = ATTN_FORMAT_OF_INPUT;
      expect_agrees(c, "order " + std::to_string(order));
    }
  // The row's keys begin in the middle of K and V.
  Case c(
      {.seq_q = 1, .seq_k = 4400, .dim_v = 2, .align = ATTN_BOTTOM_RIGHT, .window_left = 4200, .tile_k = 64});
  c.fill(Regime::kGaussian, 3);
  c.plan.key_order = ATTN_KEYS_CONSECUTIVE;
  expect_agrees(c, "window");
}

TEST(Bound, OfAHullIsInfiniteIfItsPadIs) {
  MeanTerms terms;
  EXPECT_TRUE(std::isfinite(hull_bound(terms, {}, 1, 1, 1)));
  // The misplaced weights of a fused scale may do this. The bound must not be NaN, which no result would pass.
  terms.hull_tiny = HUGE_VAL;
  EXPECT_EQ(hull_bound(terms, {}, 1, 1, 1), HUGE_VAL);
}

TEST(Bound, ConstantValuesHaveNoScoreError) {
  Case c({.seq_q = 3, .seq_k = 50});
  c.fill(Regime::kPeaked, 3);
  const Reference varied = c.reference();
  c.fill(Regime::kPeaked, 3);
  for (int64_t j = 0; j < 50; ++j)
    for (int64_t col = 0; col < 16; ++col) c.set_v(0, 0, j, col, 2);
  const Reference constant = c.reference();
  // The remaining errors are the roundings of P, of the sums and of O: a few u_P.
  for (const double bound : constant[TensorId::kO].bound) EXPECT_LE(bound, 2 * 3 * 0x1p-11);
  EXPECT_EQ(constant[TensorId::kLse].value, varied[TensorId::kLse].value);
}

TEST(Bound, UnfusedFoldedAndSixteenBitPartialsCostMore) {
  Case c({.seq_q = 2, .seq_k = 60, .num_splits = 2});
  c.fill(Regime::kGaussian, 9);
  double last = c.reference()[TensorId::kO].bound[0];
  const auto expect_grown = [&](const char* what) {
    const double bound = c.reference()[TensorId::kO].bound[0];
    EXPECT_GT(bound, last) << what;
    last = bound;
  };
  c.plan.scale_mode = ATTN_SCALE_SEPARATE;
  expect_grown("separate scale");
  c.plan.partial_format = ATTN_FORMAT_OF_INPUT;
  expect_grown("16-bit partials");
  c.plan.scale_mode = ATTN_SCALE_FOLDED_Q;
  expect_grown("scale folded into Q");
  c.plan.exp_class = ATTN_EXP_FAST_EXPF;
  expect_grown("__expf");
  c.plan.conversion = ATTN_CONVERT_FAITHFUL;
  expect_grown("conversions that are not to nearest");
  c.plan.exp_error = 0x1p-13f;
  expect_grown("a polynomial");
  c.plan.v_format = ATTN_FORMAT_E4M3;
  expect_grown("V in 8 bits");
  c.plan.p_format = ATTN_FORMAT_E4M3;
  expect_grown("P in 8 bits");
}

// Otherwise a caller who tightens the cap would let wrong kernels pass.
TEST(Bound, ALimitOfRescalesOnlyTightens) {
  for (const int32_t rule : {ATTN_MAX_UNKNOWN, ATTN_MAX_WHOLE, ATTN_MAX_RUNNING}) {
    for (const int64_t tile_k : {8, 64}) {
      Case c({.seq_q = 2, .seq_k = 1024, .dim_qk = 16, .dim_v = 8});
      c.fill(Regime::kGaussian, 3);
      c.plan.tile_k = tile_k, c.plan.max_rule = rule, c.plan.key_order = ATTN_KEYS_ASCENDING;
      c.plan.sum_lanes = rule == ATTN_MAX_UNKNOWN ? 0 : 4, c.plan.rescales = 0;
      const auto due = [&](int64_t limit) {
        attn_plan cap = documented_cap();
        cap.rescales = limit;
        Calibration calibration = documented();
        calibration.error_cap = cap;
        return evaluate(c.problem, c.tensors(), c.plan, calibration);
      };
      const Reference open = due(0), all = due(1024 / tile_k), few = due(2);
      bool tighter = false;
      for (const TensorId t : {TensorId::kO, TensorId::kLse}) {
        EXPECT_EQ(open[t].bound, all[t].bound) << "as many as tiles";
        EXPECT_EQ(open[t].value, few[t].value) << "the prediction of P";
        for (size_t n = 0; n < open[t].bound.size(); ++n) {
          EXPECT_LE(few[t].bound[n], open[t].bound[n]) << "rule " << rule << " tile " << tile_k;
          tighter |= few[t].bound[n] < open[t].bound[n];
        }
      }
      EXPECT_EQ(tighter, rule != ATTN_MAX_WHOLE) << "rule " << rule << " tile " << tile_k;
    }
  }
}

}  // namespace
}  // namespace attnfuzz
