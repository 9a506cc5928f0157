// Tests the oracle of gradients at the ends of the range of numbers: biases and sinks far from the scores,
// factors that are flushed, and a scale that is folded into Q.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reference/model/error_cap.h"
#include "tests/reference/gradients/gradient_case.h"

namespace attnfuzz {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();

// One head without a mask, whose numbers the caller sets.
Small plain(int32_t dtype, int64_t queries, int64_t keys, int64_t columns) {
  Small s(dtype, 1);
  attn_problem& p = s.p;
  p.batch = p.heads_q = p.heads_kv = 1;
  p.seq_q = queries, p.seq_k = keys, p.dim_qk = p.dim_v = columns;
  p.scale = 1, p.softcap = 0;
  p.causal = p.has_mask = p.has_key_lengths = 0;
  p.window_left = p.window_right = -1;
  p.bias_dtype = ATTN_NONE;
  const auto at_rows = static_cast<size_t>(queries * columns), at_keys = static_cast<size_t>(keys * columns),
             pairs = static_cast<size_t>(queries * keys);
  for (Array* array : {&s.q, &s.dout, &s.o}) array->resize(at_rows);
  for (Array* array : {&s.k, &s.v}) array->resize(at_keys);
  s.lse.assign(static_cast<size_t>(queries), 0), s.dlse = s.lse;
  s.mask.assign(pairs, 1), s.bias.assign(pairs, 0), s.dbias.assign(pairs, 0);
  s.sinks.assign(1, 0);
  return s;
}
Small gaussian(int32_t dtype, int64_t queries, int64_t keys, int64_t columns, uint64_t seed = 7) {
  Small s = plain(dtype, queries, keys, columns);
  s.p.scale = 0.25f;
  Random random(seed);
  for (Array* array : {&s.q, &s.k, &s.v, &s.dout})
    for (size_t n = 0; n < array->number.size(); ++n) array->set(dtype, n, random.gaussian());
  for (float& x : s.dlse) x = static_cast<float>(random.gaussian());
  return s;
}

// Models write a mask as a bias of the lowest finite number. It then hides keys as -inf does.
TEST(GradientExtremes, TheLowestBiasHidesAKey) {
  const auto masked = [](float hidden, int32_t saved) {
    Small s = gaussian(ATTN_BF16, 8, 8, 16);
    s.p.bias_dtype = ATTN_F32;
    s.p.features |= ATTN_FEATURE_DBIAS;
    s.plan.saved = saved, s.plan.isolates_masked_nan = 1;
    for (size_t n = 0; n < s.bias.size(); ++n) s.bias[n] = n % 8 > n / 8 ? hidden : 0;
    s.save();
    return s.due();
  };
  for (const int32_t saved : {ATTN_SAVED_GIVEN, ATTN_SAVED_RECOMPUTED}) {
    const Reference hidden = masked(-INFINITY, saved);
    for (const float low : {-1e30f, -1.7e38f, -0x1.fep127f, kLowest}) {
      const Reference due = masked(low, saved);
      EXPECT_EQ(due.unconstrained, 0);
      for (const TensorId t : {TensorId::kDq, TensorId::kDk, TensorId::kDv, TensorId::kDbias}) {
        for (size_t n = 0; n < due[t].rule.size(); ++n) {
          ASSERT_EQ(static_cast<Due>(due[t].rule[n]), Due::kNumber) << low << " element " << n;
          ASSERT_NEAR(due[t].value[n], hidden[t].value[n], 1e-12);
          // Hidden pairs may count among those that are added.
          ASSERT_LE(due[t].bound[n], 1.02 * hidden[t].bound[n] + 1e-30) << low << " element " << n;
        }
      }
    }
  }
}

// If a row sees nothing else, -inf may be subtracted from -inf.
TEST(GradientExtremes, ARowOfTheLowestBiasMayBeAnything) {
  Small s = gaussian(ATTN_BF16, 2, 3, 4);
  s.p.bias_dtype = ATTN_F32;
  for (size_t n = 0; n < 3; ++n) s.bias[n] = kLowest;
  s.save();
  const Reference due = s.due();
  EXPECT_EQ(static_cast<Due>(due[TensorId::kDq].rule[0]), Due::kAnything);
  EXPECT_EQ(static_cast<Due>(due[TensorId::kDq].rule[4]), Due::kNumber) << "the other query";
}

// A sink keeps the LSE moderate, but dLSE may be that of an LSE without it.
TEST(GradientExtremes, AnLseWithoutTheSinkMayOverflow) {
  for (const bool apart : {false, true}) {
    Small s = gaussian(ATTN_BF16, 1, 3, 4);
    s.p.bias_dtype = ATTN_F32;
    s.p.has_sink = 1, s.p.sink_dtype = ATTN_F32;
    s.p.features |= ATTN_FEATURE_SINK | ATTN_FEATURE_DSINK | ATTN_FEATURE_DLSE;
    s.plan.lse_sink = apart;
    for (float& bias : s.bias) bias = kLowest;
    s.save();
    EXPECT_EQ(static_cast<Due>(s.due()[TensorId::kDq].rule[0]), apart ? Due::kAnything : Due::kNumber);
    s.dlse[0] = 0;
    EXPECT_EQ(static_cast<Due>(s.due()[TensorId::kDq].rule[0]), apart ? Due::kAnything : Due::kNumber);
  }
}

// An LSE without the sink matters only to dLSE: P follows from the sink, and is 0.
TEST(GradientExtremes, AnLseWithoutTheSinkFreesOnlyWhatNeedsIt) {
  for (const int32_t saved : {ATTN_SAVED_GIVEN, ATTN_SAVED_RECOMPUTED}) {
    for (const int32_t base : {0, 2}) {
      for (const bool dlse : {false, true}) {
        Small s = gaussian(ATTN_BF16, 2, 3, 4);
        s.p.bias_dtype = ATTN_F32;
        s.p.has_sink = 1, s.p.sink_dtype = ATTN_F32;
        s.p.features |= ATTN_FEATURE_SINK | ATTN_FEATURE_DSINK | ATTN_FEATURE_DBIAS;
        if (dlse) s.p.features |= ATTN_FEATURE_DLSE;
        s.plan.lse_sink = 1, s.plan.saved = saved, s.plan.lse_base = base, s.plan.isolates_masked_nan = 1;
        for (size_t n = 0; n < 3; ++n) s.bias[n] = kLowest;
        s.save();
        const Reference due = s.due();
        const auto rule = [&](TensorId t, size_t n) { return static_cast<Due>(due[t].rule[n]); };
        for (size_t n = 0; n < 12; ++n) {
          EXPECT_EQ(rule(TensorId::kDv, n), Due::kNumber) << "saved " << saved << " base " << base;
          EXPECT_LT(due[TensorId::kDv].bound[n], 0.1);
          EXPECT_EQ(rule(TensorId::kDk, n), dlse ? Due::kAnything : Due::kNumber);
        }
        for (size_t n = 0; n < 8; ++n)
          EXPECT_EQ(rule(TensorId::kDq, n), dlse && n < 4 ? Due::kAnything : Due::kNumber);
        for (size_t n = 0; n < 6; ++n)
          EXPECT_EQ(rule(TensorId::kDbias, n), dlse && n < 3 ? Due::kAnything : Due::kNumber);
        EXPECT_EQ(rule(TensorId::kDsink, 0), Due::kNumber);
        EXPECT_LT(due[TensorId::kDsink].bound[0], 0.1);
      }
    }
  }
}

// The LSE without the sink cannot be recovered from one with it, if the sink exceeds all keys.
TEST(GradientExtremes, AHighSinkLeavesTheBoundsOfDlse) {
  const auto mean_bound = [](float sink, int32_t saved) {
    Small s = gaussian(ATTN_BF16, 8, 8, 16);
    s.p.has_sink = 1, s.p.sink_dtype = ATTN_F32;
    s.p.features |= ATTN_FEATURE_SINK | ATTN_FEATURE_DSINK | ATTN_FEATURE_DLSE;
    s.plan.lse_sink = 1, s.plan.saved = saved;
    s.sinks[0] = sink;
    s.save();
    const Reference due = s.due();
    double sum = 0;
    for (const TensorId t : {TensorId::kDq, TensorId::kDk}) {
      for (size_t n = 0; n < due[t].bound.size(); ++n) {
        EXPECT_EQ(static_cast<Due>(due[t].rule[n]), Due::kNumber) << sink;
        sum += due[t].bound[n];
      }
    }
    return sum;
  };
  for (const float sink : {2.0f, 8.0f, 12.0f, 16.0f, 20.0f, 40.0f}) {
    const double given = mean_bound(sink, ATTN_SAVED_GIVEN), own = mean_bound(sink, ATTN_SAVED_RECOMPUTED);
    EXPECT_LT(own, (sink < 8 ? 6 : 1.5) * given) << sink;
  }
}

// Flushed factors of D = dO.o, at a finite dS: o is 2^125, and dO is subnormal.
TEST(GradientExtremes, FlushedFactorsOfDeltaAreCharged) {
  Small s = plain(ATTN_BF16, 1, 2, 1);
  s.plan.flush_to_zero = 1;
  s.k.set(ATTN_BF16, 0, 1);
  s.v.set(ATTN_BF16, 1, 0x1p126);
  s.dout.set(ATTN_BF16, 0, 0x1p-127);
  s.save();
  const Expected due = s.due()[TensorId::kDq];
  EXPECT_NEAR(due.value[0], -0.125, 1e-6);
  EXPECT_LE(due.ratio(0, 0, 0), 1) << "the product of a flushed dO";
  EXPECT_GT(due.ratio(0, 0, 1), 1);
  s.plan.flush_to_zero = 0;
  EXPECT_GT(s.due()[TensorId::kDq].ratio(0, 0, 0), 1);
}

TEST(GradientExtremes, FlushedFactorsOfDsinkAreCharged) {
  Small s = plain(ATTN_BF16, 1, 1, 1);
  s.plan.flush_to_zero = 1;
  s.p.has_sink = 1, s.p.sink_dtype = ATTN_F32, s.p.features |= ATTN_FEATURE_SINK | ATTN_FEATURE_DSINK;
  s.v.set(ATTN_BF16, 0, 0x1p126);
  s.dout.set(ATTN_BF16, 0, 0x1p-127);
  s.save();
  const Expected due = s.due()[TensorId::kDsink];
  EXPECT_NEAR(due.value[0], -0.125, 1e-6);
  EXPECT_LE(due.ratio(0, 0, 0), 1);
  EXPECT_GT(due.ratio(0, 0, 0.5), 1);
}

// The error of P relative to a far sink. Draws of gradients have the first of these sinks (SinkKind::kFarBelow).
TEST(GradientExtremes, AFarSinkOfAQueryWithoutKeysIsJudged) {
  const auto dsink = [](float sink) {
    Small s = gaussian(ATTN_BF16, 2, 3, 4);
    s.p.has_sink = 1, s.p.sink_dtype = ATTN_F32;
    s.p.features |= ATTN_FEATURE_SINK | ATTN_FEATURE_DSINK | ATTN_FEATURE_DLSE;
    s.p.has_mask = 1;
    for (size_t n = 0; n < 3; ++n) s.mask[n] = 0;
    s.sinks[0] = sink;
    s.save();
    return s.due()[TensorId::kDsink];
  };
  const Expected due = dsink(-60000);
  EXPECT_EQ(static_cast<Due>(due.rule[0]), Due::kNumber);
  EXPECT_LT(due.bound[0], 0.05 * std::abs(due.value[0]));
  EXPECT_EQ(static_cast<Due>(dsink(-1e30f).rule[0]), Due::kAnything);
}

// A kernel that scales Q and rounds it multiplies dS by this Q for dK.
TEST(GradientExtremes, AFoldedScaleRoundsAFactorOfDk) {
  const auto rounded = [](double x) {
    const uint16_t bits = encode16(ATTN_F16, static_cast<float>(x));
    return decode(ATTN_F16, &bits, 0);
  };
  double worst = 0, unfolded = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    Small s = gaussian(ATTN_F16, 1, 2, 16, seed);
    s.p.scale = 0.088388346f;
    s.plan.ds_format = seed % 2 ? +ATTN_FORMAT_F32 : +ATTN_FORMAT_OF_INPUT;
    s.plan.scale_mode = seed % 4 < 2 ? ATTN_SCALE_FOLDED_Q : ATTN_SCALE_UNKNOWN;
    s.save();
    const Reference due = s.due();
    s.plan.scale_mode = ATTN_SCALE_SEPARATE;
    const Reference separate = s.due();
    double delta = 0;
    for (size_t c = 0; c < 16; ++c) delta += double{s.dout.number[c]} * s.o.number[c];
    for (size_t j = 0; j < 2; ++j) {
      double x = 0, grad = 0;
      for (size_t t = 0; t < 16; ++t) {
        x += rounded(s.p.scale * double{s.q.number[t]}) * s.k.number[j * 16 + t];
        grad += double{s.dout.number[t]} * s.v.number[j * 16 + t];
      }
      double ds = std::exp(x - s.lse[0]) * (grad - delta);
      if (seed % 2 == 0) ds = rounded(ds);
      for (size_t t = 0; t < 16; ++t) {
        const double got = rounded(ds * rounded(s.p.scale * double{s.q.number[t]}));
        const auto ratio = [&](const Reference& of) {
          return of[TensorId::kDk].ratio(static_cast<int64_t>(j), static_cast<int64_t>(t),
                                         static_cast<float>(got));
        };
        worst = std::max(worst, ratio(due)), unfolded = std::max(unfolded, ratio(separate));
      }
    }
  }
  EXPECT_LE(worst, 1);
  EXPECT_GT(worst, 0.5);
  EXPECT_GT(unfolded, 1) << "a kernel that declares the original Q";
}

// Q times the scale and log2 e may be infinite, as in the forward pass. Many columns, or keys, are no reason.
TEST(GradientExtremes, AFoldedQueryOverflowsByItsLargestNumber) {
  const auto state = [](float q, int64_t columns, float k) {
    Small s = plain(ATTN_F16, 1, 1, columns);
    s.plan.scale_mode = ATTN_SCALE_FOLDED_Q;
    for (size_t t = 0; t < static_cast<size_t>(columns); ++t)
      s.q.set(ATTN_F16, t, q), s.k.set(ATTN_F16, t, t == 0 ? k : 0);
    s.v.set(ATTN_F16, 0, 1), s.dout.set(ATTN_F16, 0, 1);
    s.save();
    return static_cast<Due>(s.due()[TensorId::kDv].rule[0]);
  };
  EXPECT_EQ(state(60000, 1, 0x1p-14f), Due::kAnything);
  EXPECT_EQ(state(40000, 1, 0x1p-14f), Due::kNumber);
  EXPECT_EQ(state(40000, 12, 0x1p-14f), Due::kNumber);
  EXPECT_EQ(state(0x1p-14f, 1, 65504), Due::kNumber);
}

// dLSE of a kernel that reads no LSE is the gradient of the LSE that its caller declares.
TEST(GradientExtremes, TheCallerSaysWhatARecomputedLseHolds) {
  Small s = gaussian(ATTN_BF16, 4, 4, 8);
  s.p.has_sink = 1, s.p.sink_dtype = ATTN_F32;
  s.p.features |= ATTN_FEATURE_SINK | ATTN_FEATURE_DSINK | ATTN_FEATURE_DLSE;
  s.plan.saved = ATTN_SAVED_RECOMPUTED;
  s.save();
  Calibration calibration = documented();
  calibration.error_cap = documented_cap();
  calibration.error_cap->saved = ATTN_SAVED_RECOMPUTED;
  const auto dq = [&](int32_t of_plan, int32_t of_cap) {
    s.plan.lse_sink = of_plan, calibration.error_cap->lse_sink = of_cap;
    return evaluate_gradients(s.p, s.tensors(), s.plan, calibration)[TensorId::kDq].value;
  };
  EXPECT_EQ(dq(1, 0), dq(0, 0));
  EXPECT_EQ(dq(0, 1), dq(1, 1));
  EXPECT_NE(dq(0, 0), dq(1, 1));
}

}  // namespace
}  // namespace attnfuzz
