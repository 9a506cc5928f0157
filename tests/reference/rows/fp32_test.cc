// Tests the bound for Q, K, V and O in fp32: right kernels are within it, and a kernel that secretly rounds a
// factor, P or O to fewer bits is not. Compares the bound with its definition in long double.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "reference/numbers/formats.h"
#include "tests/reference/support.h"

namespace attnfuzz {
namespace {

enum class Bits : uint8_t { kAll, kTf32, kTf32Cut, kBf16, kF16 };
float rounded(float x, Bits to) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  switch (to) {
    case Bits::kAll:
      return x;
    case Bits::kTf32:  // to nearest, ties away from 0: cvt.rna.tf32
      return std::bit_cast<float>((bits + 0x1000) & ~0x1fffu);
    case Bits::kTf32Cut:
      return std::bit_cast<float>(bits & ~0x1fffu);
    default: {
      const int32_t dtype = to == Bits::kF16 ? ATTN_F16 : ATTN_BF16;
      const uint16_t narrow = encode16(dtype, x);
      return static_cast<float>(decode(dtype, &narrow, 0));
    }
  }
}

// The formats to which a kernel rounds its intermediates.
struct Rounds {
  Bits qk = Bits::kAll, p = Bits::kAll, v = Bits::kAll, o = Bits::kAll;
};

struct Result {
  std::vector<float> o, lse;
};

// One head of attention in fp32.
struct Fp32Case {
  attn_problem problem = {};
  attn_plan plan = {};
  std::vector<float> q, k, v;

  explicit Fp32Case(uint64_t seed) {
    Random random(seed);
    problem.size = sizeof problem;
    problem.dtype = ATTN_F32;
    problem.features = ATTN_FEATURE_F32;
    problem.batch = problem.heads_q = problem.heads_kv = 1;
    problem.seq_q = 1 + random.below(5);
    problem.seq_k = 1 + random.below(random.below(3) == 0 ? 300 : 40);
    problem.dim_qk = 1 + random.below(96);
    problem.dim_v = 1 + random.below(20);
    problem.causal = random.below(3) == 0;
    problem.window_left = problem.window_right = -1;
    problem.bias_dtype = ATTN_NONE;
    problem.scale = 1 / std::sqrt(static_cast<float>(problem.dim_qk));
    plan.size = sizeof plan;
    plan.accumulator = ATTN_ACC_FFMA;
    plan.tile_q = plan.tile_k = 16;
    plan.num_splits = 1;
    plan.exp_class = ATTN_EXP_EXPF;
    plan.log_class = ATTN_LOG_LOGF;
    plan.rcp_class = ATTN_RCP_EXACT;
    plan.scale_mode = ATTN_SCALE_SEPARATE;
    plan.workspace_align = 1;
    // Ordinary data, peaked data, or data with many exponents and subnormals.
    const int64_t regime = random.below(4);
    const auto number = [&](int64_t spread) {
      const auto x = static_cast<float>(random.gaussian());
      return regime == 3 ? std::ldexp(x, static_cast<int>(random.below(2 * spread)) - static_cast<int>(spread))
                         : x;
    };
    for (int64_t n = 0; n < problem.seq_q * problem.dim_qk; ++n)
      q.push_back(number(12) * (regime == 2 ? 8 : 1));
    for (int64_t n = 0; n < problem.seq_k * problem.dim_qk; ++n) k.push_back(number(12));
    for (int64_t n = 0; n < problem.seq_k * problem.dim_v; ++n) v.push_back(number(110));
  }

  attn_tensors tensors() {
    const attn_problem& p = problem;
    attn_tensors t = {};
    t.size = sizeof t;
    t.q = {q.data(), {p.seq_q * p.dim_qk, p.seq_q * p.dim_qk, p.dim_qk, 1}};
    t.k = {k.data(), {p.seq_k * p.dim_qk, p.seq_k * p.dim_qk, p.dim_qk, 1}};
    t.v = {v.data(), {p.seq_k * p.dim_v, p.seq_k * p.dim_v, p.dim_v, 1}};
    return t;
  }
  Reference reference() { return evaluate(problem, tensors(), plan, documented()); }
  int64_t seen(int64_t i) const { return problem.causal ? std::min(i + 1, problem.seq_k) : problem.seq_k; }
};

// A kernel with three passes, or with tiles and a running maximum.
Result kernel(const Fp32Case& c, const Rounds& rounds, bool tiled) {
  const attn_problem& p = c.problem;
  Result out;
  for (int64_t i = 0; i < p.seq_q; ++i) {
    const int64_t n = c.seen(i);
    std::vector<float> x(static_cast<size_t>(n)), o(static_cast<size_t>(p.dim_v), 0.0f);
    for (int64_t j = 0; j < n; ++j) {
      float dot = 0;
      for (int64_t t = 0; t < p.dim_qk; ++t) {
        const float a = rounded(c.q[static_cast<size_t>(i * p.dim_qk + t)], rounds.qk),
                    b = rounded(c.k[static_cast<size_t>(j * p.dim_qk + t)], rounds.qk);
        dot = tiled ? std::fma(a, b, dot) : dot + a * b;
      }
      x[static_cast<size_t>(j)] = dot * p.scale;
    }
    float max = -std::numeric_limits<float>::infinity(), sum = 0;
    const int64_t tile = tiled ? c.plan.tile_k : n;
    for (int64_t first = 0; first < n; first += tile) {
      const int64_t end = std::min(n, first + tile);
      const float before = max;
      for (int64_t j = first; j < end; ++j) max = std::max(max, x[static_cast<size_t>(j)]);
      const float alpha = first == 0 ? 0 : std::exp(before - max);
      sum *= alpha;
      for (float& value : o) value *= alpha;
      for (int64_t j = first; j < end; ++j) {
        const float weight = std::exp(x[static_cast<size_t>(j)] - max), w = rounded(weight, rounds.p);
        sum += weight;
        for (int64_t d = 0; d < p.dim_v; ++d)
          o[static_cast<size_t>(d)] += w * rounded(c.v[static_cast<size_t>(j * p.dim_v + d)], rounds.v);
      }
    }
    for (const float value : o) out.o.push_back(rounded(value / sum, rounds.o));
    out.lse.push_back(max + std::log(sum));
  }
  return out;
}

// The largest ratio. At least half of the elements must be judged: V with all exponents may overflow in some
// rows.
double worst(const Reference& due, const Result& got) {
  double most = 0;
  size_t judged = 0;
  for (size_t row = 0; row < got.lse.size(); ++row) {
    const auto at = static_cast<int64_t>(row), columns = due[TensorId::kO].columns;
    for (int64_t d = 0; d < columns; ++d) {
      const auto i = static_cast<size_t>(at * columns + d);
      most = std::max(most, due[TensorId::kO].ratio(at, d, got.o[i]));
      judged += std::isfinite(due[TensorId::kO].bound[i]);
    }
    most = std::max(most, due[TensorId::kLse].ratio(at, 0, got.lse[row]));
  }
  EXPECT_GE(2 * judged, got.o.size()) << "elements that a bound is held against";
  return most;
}

constexpr Rounds kTf32 = {Bits::kTf32, Bits::kTf32, Bits::kTf32, Bits::kAll};
constexpr Rounds kTf32Cut = {Bits::kTf32Cut, Bits::kTf32Cut, Bits::kTf32Cut, Bits::kAll};
void declare_tf32(attn_plan* plan) { plan->qk_format = plan->p_format = plan->v_format = ATTN_FORMAT_TF32; }

TEST(Fp32, IsTheDefinitionInLongDouble) {
  int64_t elements = 0, hulls = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Fp32Case c(seed);
    const Reference due = c.reference();
    const attn_problem& p = c.problem;
    for (int64_t i = 0; i < p.seq_q; ++i) {
      std::vector<long double> x;
      long double max = -INFINITY, sum = 0;
      for (int64_t j = 0; j < c.seen(i); ++j) {
        long double dot = 0;
        for (int64_t t = 0; t < p.dim_qk; ++t)
          dot += static_cast<long double>(c.q[static_cast<size_t>(i * p.dim_qk + t)]) *
                 static_cast<long double>(c.k[static_cast<size_t>(j * p.dim_qk + t)]);
        x.push_back(dot * static_cast<long double>(p.scale));
        max = std::max(max, x.back());
      }
      for (long double& score : x) sum += score = std::exp(score - max);
      const auto row = static_cast<size_t>(i);
      const auto close = [&](TensorId tensor, size_t at, long double exact) {
        const Expected& of = due[tensor];
        const auto off = static_cast<double>(std::abs(static_cast<long double>(of.value[at]) - exact));
        // If only a hull is known, its centre may be far from the exact value; otherwise it is very close.
        const bool hull = due.state[row] == RowState::kUninformative;
        hulls += hull;
        ++elements;
        ASSERT_TRUE(off <= (hull ? 1.0 : 0x1p-20) * of.bound[at])
            << "seed " << seed << ": " << off << " of " << of.bound[at];
      };
      close(TensorId::kLse, row, max + std::log(sum));
      for (int64_t d = 0; d < p.dim_v; ++d) {
        long double o = 0;
        for (size_t j = 0; j < x.size(); ++j)
          o += x[j] * static_cast<long double>(c.v[j * static_cast<size_t>(p.dim_v) + static_cast<size_t>(d)]);
        close(TensorId::kO, row * static_cast<size_t>(p.dim_v) + static_cast<size_t>(d), o / sum);
      }
    }
  }
  EXPECT_LT(hulls, elements / 4);
}

TEST(Fp32, RightKernelsLieWithinTheBound) {
  double most = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Fp32Case c(seed);
    const Reference declared = c.reference();
    c.plan.accumulator = ATTN_ACC_UNKNOWN, c.plan.exp_class = ATTN_EXP_UNKNOWN;
    c.plan.scale_mode = ATTN_SCALE_UNKNOWN;
    const Reference open = c.reference();
    for (const bool tiled : {false, true}) {
      const Result got = kernel(c, {}, tiled);
      ASSERT_LE(worst(declared, got), 1) << "seed " << seed << ", tiled " << tiled;
      ASSERT_LE(worst(open, got), 1) << "seed " << seed << ", tiled " << tiled;
      most = std::max(most, worst(declared, got));
    }
  }
  EXPECT_GT(most, 0.01) << "the bound is far too wide";
}

TEST(Fp32, FewerBitsThanDeclaredAreRefused) {
  const struct {
    const char* what;
    Rounds rounds;
    int cases;  // one of so many cases must be refused
  } kernels[] = {
      {"TF32 products, to nearest", kTf32, 3},     {"TF32 products, cut off", kTf32Cut, 3},
      {"Q and K in TF32", {.qk = Bits::kTf32}, 3}, {"P in TF32", {.p = Bits::kTf32}, 8},
      {"V in TF32", {.v = Bits::kTf32}, 3},        {"Q and K in bf16", {.qk = Bits::kBf16}, 3},
      {"P in bf16", {.p = Bits::kBf16}, 8},        {"Q and K in fp16", {.qk = Bits::kF16}, 3},
      {"P in fp16", {.p = Bits::kF16}, 8},         {"O in fp16", {.o = Bits::kF16}, 1},
      {"O in bf16", {.o = Bits::kBf16}, 1},
  };
  for (const auto& [what, rounds, cases] : kernels) {
    for (const bool open : {false, true}) {
      int refused = 0, first = 0;
      for (int seed = 1; seed <= 100; ++seed) {
        Fp32Case c(static_cast<uint64_t>(seed));
        if (open) {
          c.plan.accumulator = ATTN_ACC_UNKNOWN, c.plan.exp_class = ATTN_EXP_UNKNOWN;
          c.plan.scale_mode = ATTN_SCALE_UNKNOWN;
        }
        const bool bad = worst(c.reference(), kernel(c, rounds, true)) > 1;
        refused += bad;
        if (bad && first == 0) first = seed;
      }
      const std::string name = std::string(what) + (open ? ", nothing declared" : "");
      std::printf("%s: %d of 100 cases refused, the first is number %d\n", name.c_str(), refused, first);
      EXPECT_GE(refused, rounds.p == Bits::kAll ? 75 : 40)
          << name;  // rows with one key have P = 1, which is exact
      EXPECT_TRUE(first > 0 && first <= cases) << name << ": case " << first;
    }
  }
}

TEST(Fp32, DeclaredTf32LiesWithinItsBound) {
  double most = 0;
  int cut_refused = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Fp32Case c(seed);
    declare_tf32(&c.plan);
    for (const bool tiled : {false, true}) {
      const double ratio = worst(c.reference(), kernel(c, kTf32, tiled));
      ASSERT_LE(ratio, 1) << "seed " << seed;
      most = std::max(most, ratio);
    }
    const Result cut = kernel(c, kTf32Cut, true);
    cut_refused += worst(c.reference(), cut) > 1;
    c.plan.conversion = ATTN_CONVERT_FAITHFUL;
    ASSERT_LE(worst(c.reference(), cut), 1) << "seed " << seed << ", cut off";
  }
  EXPECT_GT(most, 0.05);
  EXPECT_GT(cut_refused, 0) << "a plan that declares rounding to nearest must not truncate";
  // A declaration of only P does not allow TF32 for Q and K.
  Fp32Case c(1);
  c.plan.p_format = ATTN_FORMAT_TF32;
  EXPECT_GT(worst(c.reference(), kernel(c, kTf32, true)), 1);
}

// ATTN_FORMAT_OF_INPUT means fp32 here: P, partials and V are rounded to 24 bits.
TEST(Fp32, OfInputIsFp32) {
  Fp32Case c(3);
  const Reference plain = c.reference();
  c.plan.p_format = c.plan.partial_format = c.plan.v_format = ATTN_FORMAT_OF_INPUT;
  EXPECT_EQ(c.reference()[TensorId::kO].bound, plain[TensorId::kO].bound);
}

TEST(Fp32, TheEndsOfTheFormat) {
  Fp32Case c(1);
  attn_problem& p = c.problem;
  p.seq_q = 1, p.seq_k = 2, p.dim_qk = 1, p.dim_v = 1, p.causal = 0, p.scale = 1;
  const auto expect = [&](float q, float k0, float k1, float v0, float v1) -> Reference {
    c.q = {q}, c.k = {k0, k1}, c.v = {v0, v1};
    return c.reference();
  };
  constexpr float kLargest = std::numeric_limits<float>::max(), kLeast = 0x1p-149f;
  // Products below fp32's range are 0, so both keys have the same weight.
  Reference r = expect(kLeast, kLargest * 0.25f, 1, 3, 5);
  EXPECT_LE(r[TensorId::kO].ratio(0, 0, 4), 1);
  EXPECT_GT(r[TensorId::kO].ratio(0, 0, 4.001f), 1);
  // Scores overflow fp32, so any result is allowed.
  r = expect(kLargest, 2, 1, 3, 5);
  EXPECT_EQ(r.unconstrained, 1);
  // Large scores that fp32 holds, far apart: only the first key has weight.
  r = expect(0x1p60f, 0x1p60f, 0x1p59f, 3, 5);
  EXPECT_EQ(r.unconstrained, 0);
  EXPECT_LE(r[TensorId::kO].ratio(0, 0, 3), 1);
  // V at both ends of the range: the largest is exact, and subnormals lose at most their last place.
  r = expect(0, 1, 1, kLargest * 0.25f, kLargest * 0.25f);
  EXPECT_LE(r[TensorId::kO].ratio(0, 0, kLargest * 0.25f), 1);
  EXPECT_GT(r[TensorId::kO].ratio(0, 0, INFINITY), 1);
  r = expect(0, 1, 1, 4 * kLeast, 8 * kLeast);
  EXPECT_LE(r[TensorId::kO].ratio(0, 0, 6 * kLeast), 1);
  EXPECT_GT(r[TensorId::kO].ratio(0, 0, 0x1p-120f), 1);
  // K in TF32 may overflow where fp32 holds it.
  declare_tf32(&c.plan);
  r = expect(kLeast, kLargest, 1, 3, 5);
  EXPECT_EQ(r.unconstrained, 1);
}

}  // namespace
}  // namespace attnfuzz
