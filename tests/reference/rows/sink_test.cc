// Tests sinks (ATTN_FEATURE_SINK): compares the oracle with one more key, and its bound with kernels that add
// the sink before their keys, after them, or when they merge splits.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reference/model/error_cap.h"
#include "reference/numbers/formats.h"
#include "reference/partials.h"
#include "reference/rows/sinks.h"
#include "reference/rows/visibility.h"
#include "tests/reference/legal_kernels/declared.h"
#include "tests/reference/support.h"

namespace attnfuzz {
namespace {

struct WithSinks {
  explicit WithSinks(const Shape& shape) : c(shape), sinks(static_cast<size_t>(shape.heads_q)) {
    c.problem.features |= ATTN_FEATURE_SINK;
    c.problem.has_sink = 1;
    c.problem.sink_dtype = ATTN_F32;
  }
  attn_tensors tensors() {
    attn_tensors t = c.tensors();
    t.sink = {sinks.data(), {0, 1, 0, 0}};
    return t;
  }
  Reference reference() { return evaluate(c.problem, tensors(), c.plan, documented()); }

  Case c;
  std::vector<float> sinks;
};

// A row's scores in double, for a problem without a mask.
std::vector<double> scores_of(Case& c, const Row& at) {
  const attn_problem& p = c.problem;
  std::vector<double> x;
  const int64_t g = at.h / (p.heads_q / p.heads_kv);
  for (int64_t j = 0; j < p.seq_k; ++j) {
    if (!sees(p, c.tensors(), at.b, at.h, at.i, j)) continue;
    double dot = 0;
    for (int64_t t = 0; t < p.dim_qk; ++t)
      dot += decode(p.dtype, c.q.data(), ((at.b * p.heads_q + at.h) * p.seq_q + at.i) * p.dim_qk + t) *
             decode(p.dtype, c.k.data(), ((at.b * p.heads_kv + g) * p.seq_k + j) * p.dim_qk + t);
    x.push_back(dot * p.scale);
  }
  return x;
}

TEST(Sink, JoinsTheSumAndHasNoValue) {
  WithSinks s({.heads_q = 3, .seq_q = 5, .seq_k = 7, .dim_v = 1, .causal = true});
  s.c.fill(Regime::kGaussian, 3);
  for (int64_t h = 0; h < 3; ++h)
    for (int64_t j = 0; j < 7; ++j) s.c.set_v(0, 0, j, 0, 1);
  s.sinks = {0.5f, -3, 20};
  const Reference r = s.reference();
  for (int64_t row = 0; row < r.rows; ++row) {
    const Row at = RowSpace(s.c.problem).at(row);
    double keys = 0;
    for (const double x : scores_of(s.c, at)) keys += std::exp(x);
    const double all = keys + std::exp(double{s.sinks[static_cast<size_t>(at.h)]});
    EXPECT_NEAR(r[TensorId::kO].value[static_cast<size_t>(row)], keys / all, 1e-13);
    EXPECT_NEAR(r[TensorId::kLse].value[static_cast<size_t>(row)], std::log(all), 1e-13);
  }
}

TEST(Sink, LeavesTheLseUnchangedIfThePlanSaysSo) {
  WithSinks s({.seq_q = 4, .seq_k = 6, .causal = true});
  s.c.fill(Regime::kGaussian, 4);
  s.sinks = {1};
  const Reference with = s.reference();
  s.c.plan.lse_sink = 1;
  const Reference without = s.reference(), none = evaluate(s.c.problem, [&] {
    s.sinks = {-INFINITY};
    return s.tensors();
  }(), s.c.plan, documented());
  EXPECT_EQ(without[TensorId::kLse].value, none[TensorId::kLse].value);
  EXPECT_NE(without[TensorId::kLse].value, with[TensorId::kLse].value);
  EXPECT_EQ(without[TensorId::kO].value, with[TensorId::kO].value);
  EXPECT_NE(none[TensorId::kO].value, with[TensorId::kO].value);
}

// A kernel whose maximum includes the sink, and one whose maximum does not. All scores are 0.
TEST(Sink, MayBeInTheMaximumOfAnLseWithoutIt) {
  constexpr float kLog2E = 1.44269504f, kLn2 = 0.69314718f;
  for (const float sink : {-5.0f, 0.0f, 2.0f, 8.0f, 20.0f, 40.0f, 70.0f}) {
    double worst = 0, least = kInf;
    for (int n = 1; n <= 64; ++n) {
      WithSinks s({.seq_q = 1, .seq_k = n});
      s.c.fill(Regime::kZeroQuery, 3);
      s.c.plan.lse_sink = 1;
      s.sinks = {sink};
      const Reference due = s.reference();
      for (const float largest : {0.0f, std::max(sink, 0.0f)}) {
        const float mu = largest * kLog2E;
        float sum = 0;
        for (int j = 0; j < n; ++j) sum += std::exp2(-mu);
        for (const float lse : {(mu + std::log2(sum)) * kLn2, largest + std::log2(sum) * kLn2})
          worst = std::max(worst, due[TensorId::kLse].ratio(0, 0, lse));
      }
      least = std::min(least, due[TensorId::kLse].ratio(0, 0, std::log(static_cast<float>(n)) + 0.001f));
    }
    EXPECT_LE(worst, 1) << sink;
    EXPECT_GT(least, sink < 50 ? 10 : 1) << sink;
  }
  // Weights relative to such a maximum would be 0.
  WithSinks s({.seq_q = 1, .seq_k = 4});
  s.c.fill(Regime::kZeroQuery, 3);
  s.c.plan.lse_sink = 1;
  s.sinks = {90};
  EXPECT_EQ(s.reference()[TensorId::kLse].ratio(0, 0, -INFINITY), kInf);
  EXPECT_GT(s.reference()[TensorId::kLse].ratio(0, 0, std::log(4.0f) + 0.001f), 10);
}

// The LSE of a query without keys is exact, whatever the sink.
TEST(Sink, LeavesTheLseOfAQueryWithoutKeysExact) {
  WithSinks s({.seq_q = 3, .seq_k = 1, .causal = true, .align = ATTN_BOTTOM_RIGHT});
  s.c.fill(Regime::kGaussian, 6);
  s.c.plan.lse_sink = 1, s.c.plan.lse_dead = ATTN_LSE_DEAD_ZERO;
  s.sinks = {20};
  const Reference r = s.reference();
  EXPECT_EQ(r[TensorId::kLse].ratio(0, 0, 0), 0);
  EXPECT_EQ(r[TensorId::kLse].ratio(0, 0, 1e-6f), kInf);
}

// The maxima of splits may include the sink, too.
TEST(Sink, InMaximaOfSplitsIsChargedAtEachMerge) {
  Case c({.seq_k = 64, .num_splits = 4});
  const auto charge = [&](int64_t splits, int32_t rule) {
    c.plan.num_splits = c.plan.merges = splits, c.plan.merge_rule = rule;
    return sink_in_maximum(make_error_model(c.problem, c.plan, documented()), 4, 40, 1);
  };
  const double merge = 17 * kU * 36, none = charge(1, ATTN_MERGE_BY_LSE);
  EXPECT_GE(charge(4, ATTN_MERGE_BY_WEIGHT), none + merge);
  EXPECT_GE(charge(4, ATTN_MERGE_UNKNOWN), none + 4 * merge);
  EXPECT_LT(charge(4, ATTN_MERGE_UNKNOWN), 1e-3);
}

// The plan of an untrusted kernel does not decide it.
TEST(Sink, IsInTheLseIfTheCallerSaysSo) {
  WithSinks s({.seq_q = 4, .seq_k = 6, .causal = true});
  s.c.fill(Regime::kGaussian, 4);
  s.sinks = {1};
  const auto due = [&](int32_t of_plan, int32_t of_cap) {
    Calibration calibration = documented();
    calibration.error_cap = documented_cap();
    calibration.error_cap->lse_sink = of_cap;
    s.c.plan.lse_sink = of_plan;
    return evaluate(s.c.problem, s.tensors(), s.c.plan, calibration)[TensorId::kLse].value;
  };
  EXPECT_EQ(due(1, 0), due(0, 0));
  EXPECT_EQ(due(0, 1), due(1, 1));
  EXPECT_NE(due(0, 0), due(1, 1));
  const std::vector<float> o(static_cast<size_t>(4 * s.c.problem.dim_v)), lse(4);
  s.c.plan.lse_sink = 1;
  Calibration calibration = documented();
  calibration.error_cap = documented_cap();
  EXPECT_GT(
      bound_reduce(s.c.problem, s.c.plan, calibration, 1, o.data(), lse.data(), s.tensors())[TensorId::kLse]
          .value[0],
      1);
}

TEST(Sink, OfMinusInfinityIsNone) {
  WithSinks s({.heads_q = 2, .seq_q = 6, .seq_k = 5, .causal = true, .align = ATTN_BOTTOM_RIGHT});
  s.c.fill(Regime::kGaussian, 5);
  declare_all(&s.c.plan);
  s.sinks = {-INFINITY, -INFINITY};
  const Reference with = s.reference(),
                  without = evaluate(without_sinks(s.c.problem), s.c.tensors(), s.c.plan, documented());
  for (const TensorId t : {TensorId::kO, TensorId::kLse}) {
    EXPECT_EQ(with[t].value, without[t].value);
    EXPECT_EQ(with[t].bound, without[t].bound);
  }
  EXPECT_EQ(with.state, without.state);
}

// Queries before the first key see only the sink.
TEST(Sink, IsTheLseOfAQueryWithoutKeys) {
  WithSinks s({.seq_q = 3, .seq_k = 1, .causal = true, .align = ATTN_BOTTOM_RIGHT});
  s.c.fill(Regime::kGaussian, 6);
  s.sinks = {-7.5f};
  Reference r = s.reference();
  EXPECT_EQ(r.state[0], RowState::kBounded);
  EXPECT_EQ(r[TensorId::kO].ratio(0, 0, 0), 0);
  EXPECT_GT(r[TensorId::kO].ratio(0, 0, 1e-30f), 1);
  EXPECT_LE(r[TensorId::kLse].ratio(0, 0, -7.5f), 1);
  EXPECT_GT(r[TensorId::kLse].ratio(0, 0, -INFINITY), 1);
  EXPECT_GT(r[TensorId::kLse].ratio(0, 0, -7.499f), 1);
  s.c.plan.lse_sink = 1;
  r = s.reference();
  EXPECT_EQ(r[TensorId::kLse].ratio(0, 0, -INFINITY), 0);
  for (const float open : {INFINITY, NAN}) {
    s.sinks = {open};
    EXPECT_EQ(s.reference().unconstrained, 3);
  }
}

// A sink far below all keys has no part in the result.
TEST(Sink, FarBelowIsNone) {
  for (const int64_t splits : {1, 2}) {
    for (const int32_t rule : {ATTN_MERGE_UNKNOWN, ATTN_MERGE_BY_WEIGHT, ATTN_MERGE_BY_LSE}) {
      WithSinks s({.seq_q = 2, .seq_k = 32, .num_splits = splits});
      s.c.fill(Regime::kGaussian, 3);
      s.c.plan.merge_rule = rule;
      s.sinks = {-INFINITY};
      const Reference none = s.reference();
      for (const float low : {-1e6f, -1e9f, -1e10f, -1e30f, std::numeric_limits<float>::lowest()}) {
        s.sinks = {low};
        const Reference r = s.reference();
        for (const TensorId t : {TensorId::kO, TensorId::kLse}) {
          for (size_t n = 0; n < r[t].value.size(); ++n) {
            EXPECT_NEAR(r[t].value[n], none[t].value[n], 1e-13);
            // The sink costs one more rescale and one more addition.
            EXPECT_LE(r[t].bound[n], 1.1 * none[t].bound[n])
                << low << ", " << splits << " splits, rule " << rule;
          }
        }
      }
    }
  }
}

// A row in fp32 arithmetic adds its sink before the keys, after them, or as one more partial result.
enum class When { kFirst, kLast, kMerged };

struct Row32 {
  std::vector<float> o;
  float lse;
};

Row32 run(Case& c, const Row& at, float sink, When when, Random* random) {
  const attn_problem& p = c.problem;
  const int64_t g = at.h / (p.heads_q / p.heads_kv), columns = p.dim_v;
  constexpr float kLog2E = 1.44269504f, kLn2 = 0.69314718f;
  const auto inexact = [&](double x) { return static_cast<float>(x * (1 + 0x1p-22 * (2 * random->uniform() - 1))); };
  const auto exp2 = [&](float x) { return x == 0 ? 1.0f : inexact(std::exp2(static_cast<double>(x))); };
  float mu = -INFINITY, sum = 0;
  std::vector<float> o(static_cast<size_t>(columns), 0);
  const auto take = [&](float x2, const uint16_t* v) {
    const float most = std::max(mu, x2), alpha = mu == -INFINITY ? 0 : exp2(mu - most), weight = exp2(x2 - most);
    sum = std::fma(sum, alpha, weight);
    for (size_t col = 0; col < o.size(); ++col) {
      o[col] *= alpha;
      if (v == nullptr) continue;
      const uint16_t bits = p.dtype == ATTN_F16 ? encode16(ATTN_F16, weight) : encode16(ATTN_BF16, weight);
      const double rounded = decode(p.dtype, &bits, 0);
      o[col] = static_cast<float>(o[col] + rounded * decode(p.dtype, v, static_cast<int64_t>(col)));
    }
    mu = most;
  };
  if (when == When::kFirst) take(sink * kLog2E, nullptr);
  for (int64_t j = 0; j < p.seq_k; ++j) {
    if (!sees(p, c.tensors(), at.b, at.h, at.i, j)) continue;
    float dot = 0;
    for (int64_t t = 0; t < p.dim_qk; ++t)
      dot = static_cast<float>(
          dot + decode(p.dtype, c.q.data(), ((at.b * p.heads_q + at.h) * p.seq_q + at.i) * p.dim_qk + t) *
                    decode(p.dtype, c.k.data(), ((at.b * p.heads_kv + g) * p.seq_k + j) * p.dim_qk + t));
    take(dot * (p.scale * kLog2E), &c.v[static_cast<size_t>(((at.b * p.heads_kv + g) * p.seq_k + j) * columns)]);
  }
  if (when == When::kLast) take(sink * kLog2E, nullptr);
  float lse = sum == 0 ? -INFINITY : (mu + std::log2(sum)) * kLn2, inverse = sum == 0 ? 0 : 1 / sum;
  if (when == When::kMerged) {
    for (float& x : o) x *= inverse;
    const float most = std::max(lse, sink), weight = exp2((lse - most) * kLog2E);
    sum = weight + exp2((sink - most) * kLog2E);
    inverse = weight / sum;
    lse = most + std::log2(sum) * kLn2;
  }
  for (float& x : o) {
    const uint16_t bits = encode16(p.dtype, x * inverse);
    x = static_cast<float>(decode(p.dtype, &bits, 0));
  }
  return {o, lse};
}

TEST(Sink, ItsBoundHoldsWheneverItIsTakenIn) {
  Random random(17);
  double worst_o = 0, worst_lse = 0;
  int64_t judged = 0;
  for (int n = 0; n < 4000; ++n) {
    Shape shape = {.dtype = static_cast<int32_t>(random.below(2)), .heads_q = 2, .seq_q = 1 + random.below(4)};
    shape.seq_k = random.below(60), shape.dim_qk = 16, shape.dim_v = 4;
    shape.causal = random.below(2) != 0, shape.align = static_cast<int32_t>(random.below(2));
    WithSinks s(shape);
    const Regime regime = kRegimes[random.below(std::size(kRegimes))];
    s.c.fill(regime, random.bits());
    s.c.plan.merges = 2;  // the loosest: a sink may come as a partial result
    s.c.plan.rescales = shape.seq_k;
    constexpr float kOffsets[] = {0, 1, -1, 5, -5, 12, -12, 30, -30, 90, -90};
    double middle = 0;
    for (int64_t h = 0; h < 2; ++h) {
      const std::vector<double> x = scores_of(s.c, {0, h, shape.seq_q - 1});
      if (!x.empty()) middle = *std::ranges::max_element(x);
      s.sinks[static_cast<size_t>(h)] = static_cast<float>(middle) + kOffsets[random.below(11)];
    }
    const auto when = static_cast<When>(random.below(3));
    if (when == When::kMerged) s.c.plan.num_splits = 2, s.c.plan.split_tiles = 64;
    const Reference r = s.reference();
    for (int64_t row = 0; row < r.rows; ++row) {
      const Row at = RowSpace(s.c.problem).at(row);
      const Row32 got = run(s.c, at, s.sinks[static_cast<size_t>(at.h)], when, &random);
      if (r.state[static_cast<size_t>(row)] == RowState::kUnconstrained) continue;
      ++judged;
      worst_lse = std::max(worst_lse, r[TensorId::kLse].ratio(row, 0, got.lse));
      for (int64_t col = 0; col < shape.dim_v; ++col)
        worst_o = std::max(worst_o, r[TensorId::kO].ratio(row, col, got.o[static_cast<size_t>(col)]));
      ASSERT_LE(std::max(worst_o, worst_lse), 1)
          << n << " row " << row << " " << name_of(regime) << " when " << static_cast<int>(when) << " sink "
          << s.sinks[static_cast<size_t>(at.h)] << " dtype " << shape.dtype << " o " << worst_o << " lse " << worst_lse;
    }
  }
  EXPECT_GT(judged, 10000);
  std::printf("  largest error/bound: O %.2f  LSE %.2f\n", worst_o, worst_lse);
}

TEST(Sink, IsOneMoreSideOfAReduction) {
  WithSinks s({.seq_q = 2, .seq_k = 4, .dim_v = 1, .num_splits = 2});
  s.c.plan.num_splits = 2;
  s.sinks = {std::log(2.0f)};
  const float o[] = {3, 3, 5, 5}, lse[] = {0, -INFINITY, 0, -INFINITY};
  const Reference r = bound_reduce(s.c.problem, s.c.plan, documented(), 2, o, lse, s.tensors());
  EXPECT_NEAR(r[TensorId::kO].value[0], 2, 1e-6);  // (3 + 5) / (1 + 1 + 2)
  EXPECT_NEAR(r[TensorId::kLse].value[0], std::log(4.0), 1e-6);
  EXPECT_EQ(r[TensorId::kO].value[1], 0);
  EXPECT_NEAR(r[TensorId::kLse].value[1], std::log(2.0), 1e-6);
  s.c.plan.lse_sink = 1;
  const Reference less = bound_reduce(s.c.problem, s.c.plan, documented(), 2, o, lse, s.tensors());
  EXPECT_NEAR(less[TensorId::kLse].value[0], std::log(2.0), 1e-6);
  EXPECT_EQ(less[TensorId::kLse].value[1], -INFINITY);
}

}  // namespace
}  // namespace attnfuzz
