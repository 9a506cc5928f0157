// Tests slopes (ATTN_FEATURE_ALIBI): compares the oracle with a bias of the same values, and its bound with kernels
// that add slopes in several orders and units.
#include <gtest/gtest.h>

#include <cmath>

#include "reference/numbers/formats.h"
#include "reference/rows/row_terms.h"
#include "reference/rows/visibility.h"
#include "reference/semantics.h"
#include "tests/reference/legal_kernels/declared.h"
#include "tests/reference/support.h"

namespace attnfuzz {
namespace {

struct WithSlopes {
  explicit WithSlopes(const Shape& shape)
      : c(shape), slopes(static_cast<size_t>(shape.batch * shape.heads_q)), problem(c.problem) {
    problem.features |= ATTN_FEATURE_ALIBI;
    problem.has_alibi = 1;
  }
  attn_tensors tensors() {
    problem.has_key_lengths = c.problem.has_key_lengths;
    attn_tensors t = c.tensors();
    t.slopes = {slopes.data(), {c.problem.heads_q, 1, 0, 0}};
    return t;
  }
  Reference reference() {
    const attn_tensors t = tensors();
    return evaluate(problem, t, c.plan, documented());
  }
  float slope(const Row& at) const { return slopes[static_cast<size_t>(at.b * problem.heads_q + at.h)]; }
  int64_t length(int64_t b) { return key_length(problem, tensors(), b); }

  Case c;
  std::vector<float> slopes;
  attn_problem problem;
};

// The product q.k, in double.
double dot(const Case& c, const Row& at, int64_t j) {
  const attn_problem& p = c.problem;
  const int64_t g = at.h / (p.heads_q / p.heads_kv);
  double sum = 0;
  for (int64_t t = 0; t < p.dim_qk; ++t)
    sum += decode(p.dtype, c.q.data(), ((at.b * p.heads_q + at.h) * p.seq_q + at.i) * p.dim_qk + t) *
           decode(p.dtype, c.k.data(), ((at.b * p.heads_kv + g) * p.seq_k + j) * p.dim_qk + t);
  return sum;
}

// Each query sees one key of known score, so the LSE shows the distance.
TEST(Alibi, CountsFromTheDiagonal) {
  for (const int32_t align : {ATTN_TOP_LEFT, ATTN_BOTTOM_RIGHT}) {
    for (int64_t only = 0; only < 9; ++only) {
      WithSlopes s({.batch = 2, .heads_q = 2, .seq_q = 3, .seq_k = 9, .align = align, .mask = true});
      s.c.fill(Regime::kZeroQuery, 1);
      s.slopes = {0.5f, -3, 0.1f, 0};
      s.c.use_key_lengths({9, 4});
      for (size_t n = 0; n < s.c.mask.size(); ++n) s.c.mask[n] = static_cast<int64_t>(n % 9) == only;
      const Reference r = s.reference();
      for (int64_t row = 0; row < r.rows; ++row) {
        const Row at = RowSpace(s.problem).at(row);
        const int64_t length = at.b == 0 ? 9 : 4;
        if (only >= length) continue;
        const int64_t own = align == ATTN_TOP_LEFT ? at.i : at.i + length - 3;
        const double due = -double{s.slope(at)} * static_cast<double>(std::abs(own - only));
        EXPECT_NEAR(r[TensorId::kLse].value[static_cast<size_t>(row)], due, 1e-12) << align << " " << row;
      }
    }
  }
}

TEST(Alibi, IsABiasOfItsValues) {
  for (const float softcap : {0.0f, 5.0f}) {
    const Shape shape = {.batch = 2, .heads_q = 2, .seq_q = 5, .seq_k = 40, .causal = true, .softcap = softcap};
    Shape biased = shape;
    biased.bias_dtype = ATTN_F32;
    WithSlopes s(shape);
    Case other(biased);
    s.c.fill(Regime::kGaussian, 2);
    other.fill(Regime::kGaussian, 2);
    s.slopes = {0.5f, -0.25f, 2, 0};
    for (int64_t row = 0; row < RowSpace(s.problem).count(); ++row) {
      const Row at = RowSpace(s.problem).at(row);
      for (int64_t j = 0; j < 40; ++j)
        other.bias[static_cast<size_t>(row * 40 + j)] =
            static_cast<float>(alibi(s.problem, s.slope(at), 40, at.i, j));
    }
    const Reference slopes = s.reference(), bias = other.reference();
    for (const TensorId t : {TensorId::kO, TensorId::kLse}) {
      for (size_t n = 0; n < bias[t].value.size(); ++n) {
        EXPECT_NEAR(slopes[t].value[n], bias[t].value[n], 1e-12);
        EXPECT_NEAR(slopes[t].bound[n], bias[t].bound[n], 1e-6 * bias[t].bound[n]);
      }
    }
  }
}

TEST(Alibi, ANonFiniteSlopeLeavesItsRowsOpen) {
  for (const float open : {INFINITY, -INFINITY, NAN, 3e38f}) {
    WithSlopes s({.seq_q = 3, .seq_k = 8});
    s.c.fill(Regime::kGaussian, 6);
    s.slopes = {open};
    EXPECT_EQ(s.reference().unconstrained, 3) << open;
  }
}

// The orders in which kernels compute a score; t is the slope's term.
enum class Order {
  kLast,         // (scale q.k + b) + t
  kFirst,        // scale q.k + (b + t)
  kBeforeBias,   // (scale q.k + t) + b
  kBaseTwo,      // the rest is multiplied by log2 e, and an fma adds the slope times log2 e
  kInProducts,   // the slope is divided by the scale and added to q.k
};

float score(const Case& c, double product, double bias, double slope_, int64_t distance, Order order) {
  constexpr float kLog2E = 1.44269504f;
  const auto slope = static_cast<float>(slope_), b = static_cast<float>(bias), scale = c.problem.scale;
  const auto raw = static_cast<float>(product), far = static_cast<float>(distance), t = -slope * far;
  float a = raw * scale;
  switch (order) {
    case Order::kLast:
      return (a + b) + t;
    case Order::kFirst:
      return a + (b + t);
    case Order::kBeforeBias:
      return (a + t) + b;
    case Order::kBaseTwo:
      return std::fma(-(slope * kLog2E), far, (a + b) * kLog2E) / kLog2E;
    case Order::kInProducts:
      return (raw + -(slope / scale) * far) * scale + b;
  }
  return 0;
}

// The plan declares fp32 products, and all later steps are exact here, so most of the error is that of the score.
TEST(Alibi, ItsBoundHoldsInAnyOrder) {
  Random random(23);
  double worst_lse = 0;
  int64_t judged = 0;
  for (int n = 0; n < 6000; ++n) {
    Shape shape = {.dtype = static_cast<int32_t>(random.below(2)), .heads_q = 2, .seq_q = 1 + random.below(3)};
    shape.seq_k = 1 + random.below(50), shape.dim_qk = 1, shape.dim_v = 1;
    shape.causal = random.below(2) != 0, shape.align = static_cast<int32_t>(random.below(2));
    if (random.below(2) != 0) shape.bias_dtype = ATTN_F32;
    WithSlopes s(shape);
    s.c.fill(kRegimes[random.below(std::size(kRegimes))], random.bits());
    s.c.plan.scale_mode = ATTN_SCALE_SEPARATE;
    s.c.plan.flush_to_zero = 0;
    s.problem.scale = s.c.problem.scale = static_cast<float>(0.05 + random.uniform());
    constexpr float kSizes[] = {0, 1e-3f, 1, 30, 1e4f, 1e-40f};
    for (float& slope : s.slopes) slope = static_cast<float>(2 * random.uniform() - 1) * kSizes[random.below(6)];
    const auto order = static_cast<Order>(random.below(5));
    const Reference r = s.reference();
    for (int64_t row = 0; row < r.rows; ++row) {
      if (r.state[static_cast<size_t>(row)] != RowState::kBounded) continue;
      const Row at = RowSpace(s.problem).at(row);
      std::vector<double> x;
      for (int64_t j = 0; j < shape.seq_k; ++j) {
        if (!sees(s.problem, s.tensors(), at.b, at.h, at.i, j)) continue;
        const double bias = s.c.bias.empty() ? 0 : s.c.bias[static_cast<size_t>(row * shape.seq_k + j)];
        const int64_t far = distance(s.problem, Lengths{s.problem.seq_q, s.length(at.b)}, at.i, j);
        x.push_back(score(s.c, dot(s.c, at, j), bias, s.slope(at), far, order));
      }
      const double most = *std::ranges::max_element(x);
      double sum = 0;
      for (const double one : x) sum += std::exp(one - most);
      ++judged;
      worst_lse = std::max(worst_lse, r[TensorId::kLse].ratio(row, 0, static_cast<float>(most + std::log(sum))));
      ASSERT_LE(worst_lse, 1) << n << " row " << row << " order " << static_cast<int>(order) << " slope "
                              << s.slope(at);
    }
  }
  EXPECT_GT(judged, 10000);
  std::printf("  largest error/bound: LSE %.2f\n", worst_lse);
}

// A distance beyond 2^24 is rounded, and its rounding is charged.
TEST(Alibi, FarKeysAreChargedForTheirDistance) {
  constexpr double kTiny = 1e-30;
  EXPECT_NEAR(alibi_error(-8, 1 << 24, false, 0, 5), 3 * 8 * kU, kTiny);
  EXPECT_NEAR(alibi_error(-8, (1 << 24) + 1, false, 0, 5), 4 * 8 * kU, kTiny);
  EXPECT_NEAR(alibi_error(-8, 1, true, -2, 5), 3 * 8 * kU + (8 + 2 + 5) * kU, kTiny);
}

}  // namespace
}  // namespace attnfuzz
