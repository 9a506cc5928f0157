// Tests the oracle of merges: compares it with the formula in double and with emulated kernels, and tests rows
// without keys.
#include "reference/merge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/numbers/formats.h"
#include "tests/reference/random.h"
#include "tests/reference/support.h"

namespace attnfuzz {
namespace {

constexpr float kLog2e = 1.44269504f;

// One head of `rows` queries with two sides in fp32 or 16 bits.
struct Sides {
  attn_problem problem = {};
  attn_plan plan = {};
  std::vector<float> o[2], lse[2];  // as the kernel reads them
  std::vector<uint16_t> stored[2];  // O in 16 bits

  Sides(int32_t dtype, int64_t rows, int64_t columns) {
    problem.size = sizeof problem;
    problem.dtype = dtype;
    problem.batch = problem.heads_q = problem.heads_kv = problem.dim_qk = 1;
    problem.seq_q = rows;
    problem.dim_v = columns;
    problem.window_left = problem.window_right = -1;
    problem.bias_dtype = ATTN_NONE;
    problem.features = ATTN_FEATURE_MERGE | (dtype == ATTN_F32 ? ATTN_FEATURE_F32 : 0);
    plan.size = sizeof plan;
    plan.exp_class = ATTN_EXP_EXP2F;
    plan.log_class = ATTN_LOG_LOGF;
    plan.rcp_class = ATTN_RCP_EXACT;
    plan.merge_rule = ATTN_MERGE_BY_WEIGHT;
    plan.p_format = ATTN_FORMAT_F32;
    plan.accumulator = ATTN_ACC_FFMA;
  }

  // `apart`: the standard deviation of the LSEs, in nats.
  void fill(Random* random, float apart) {
    for (int side = 0; side < 2; ++side) {
      lse[side].clear(), o[side].clear(), stored[side].clear();
      for (int64_t row = 0; row < problem.seq_q; ++row)
        lse[side].push_back(apart * static_cast<float>(random->gaussian()));
      for (int64_t n = 0; n < problem.seq_q * problem.dim_v; ++n) {
        auto value = static_cast<float>(random->gaussian());
        if (problem.dtype != ATTN_F32) {
          stored[side].push_back(static_cast<uint16_t>(encode16(problem.dtype, value)));
          value = static_cast<float>(decode(problem.dtype, &stored[side].back(), 0));
        }
        o[side].push_back(value);
      }
    }
  }

  attn_tensors tensors() {
    attn_tensors t = {};
    t.size = sizeof t;
    const int64_t columns = problem.dim_v;
    const auto of_o = [&](int side) {
      void* data = problem.dtype == ATTN_F32 ? static_cast<void*>(o[side].data()) : stored[side].data();
      return attn_tensor{data, {0, 0, columns, 1}};
    };
    t.o1 = of_o(0), t.o2 = of_o(1);
    t.lse1 = {lse[0].data(), {0, 0, 1, 1}}, t.lse2 = {lse[1].data(), {0, 0, 1, 1}};
    return t;
  }
  Reference due() { return evaluate_merge(problem, tensors(), plan, documented()); }
};

struct Merged {
  std::vector<float> o;
  float lse;
};

// Merges a row in fp32, like plain code. `by_lse`: the weights are relative to the merged LSE and are not
// normalised again.
Merged merged(const Sides& s, int64_t row, bool base_2, bool by_lse) {
  const auto at = static_cast<size_t>(row);
  const float a = s.lse[0][at], b = s.lse[1][at], most = std::max(a, b);
  const auto exp = [&](float x) { return std::exp2(base_2 ? x : x * kLog2e); };
  const auto log = [&](float x) { return base_2 ? std::log2(x) : std::log(x); };
  float first = exp(a - most), second = exp(b - most);
  const float sum = first + second, lse = most + log(sum);
  if (by_lse) first = exp(a - lse), second = exp(b - lse);
  Merged out = {{}, lse};
  for (int64_t c = 0; c < s.problem.dim_v; ++c) {
    const auto n = static_cast<size_t>(row * s.problem.dim_v + c);
    float value = first * s.o[0][n] + second * s.o[1][n];
    if (!by_lse) value /= sum;
    if (s.problem.dtype != ATTN_F32) {
      const auto bits = static_cast<uint16_t>(encode16(s.problem.dtype, value));
      value = static_cast<float>(decode(s.problem.dtype, &bits, 0));
    }
    out.o.push_back(value);
  }
  return out;
}

double worst_of(Sides& s, bool base_2, bool by_lse) {
  const Reference due = s.due();
  EXPECT_EQ(due.sampled, s.problem.seq_q);
  double worst = 0;
  for (int64_t row = 0; row < s.problem.seq_q; ++row) {
    EXPECT_EQ(due.state[static_cast<size_t>(row)], RowState::kBounded);
    const Merged got = merged(s, row, base_2, by_lse);
    worst = std::max(worst, due[TensorId::kLse].ratio(row, 0, got.lse));
    for (int64_t c = 0; c < s.problem.dim_v; ++c)
      worst = std::max(worst, due[TensorId::kO].ratio(row, c, got.o[static_cast<size_t>(c)]));
  }
  return worst;
}

TEST(Merge, EmulatedKernelsLieWithinTheirBounds) {
  Random random(7);
  for (const int32_t dtype : {ATTN_F16, ATTN_BF16, ATTN_F32}) {
    for (const float apart : {0.0f, 0.3f, 5.0f, 60.0f, 3e3f}) {
      for (const bool base_2 : {false, true}) {
        for (const bool by_lse : {false, true}) {
          Sides s(dtype, 400, 4);
          s.fill(&random, apart);
          s.plan.lse_base = base_2 ? 2 : 0;
          s.plan.merge_rule = by_lse ? ATTN_MERGE_BY_LSE : ATTN_MERGE_BY_WEIGHT;
          const double worst = worst_of(s, base_2, by_lse);
          EXPECT_LE(worst, 1) << dtype << " apart " << apart << " base 2: " << base_2 << " by LSE: " << by_lse;
          if (apart < 10) EXPECT_GT(worst, 1e-3);
        }
      }
    }
  }
}

// Common bugs must exceed the bound.
TEST(Merge, CommonBugsAreOutside) {
  Random random(8);
  for (const int32_t dtype : {ATTN_F16, ATTN_BF16, ATTN_F32}) {
    Sides s(dtype, 200, 4);
    s.fill(&random, 2);
    EXPECT_GT(worst_of(s, /*base_2=*/true, false), 10) << "an LSE of base e taken for base 2";
    s.plan.lse_base = 2;
    EXPECT_GT(worst_of(s, /*base_2=*/false, false), 10) << "an LSE of base 2 taken for base e";
  }
}

TEST(Merge, ASideWithoutKeysHasNoPart) {
  for (const int32_t dead : {ATTN_LSE_DEAD_MINUS_INF, ATTN_LSE_DEAD_PLUS_INF}) {
    Random random(9);
    Sides s(ATTN_F32, 4, 2);
    s.fill(&random, 1);
    s.plan.lse_dead = dead;
    const float none = dead == ATTN_LSE_DEAD_PLUS_INF ? kInf : -kInf;
    s.lse[0][0] = s.lse[1][1] = s.lse[0][2] = s.lse[1][2] = none;
    s.o[0][0] = NAN;
    const Reference due = s.due();
    const Expected &o = due[TensorId::kO], &lse = due[TensorId::kLse];
    EXPECT_EQ(due.dead, 1);
    EXPECT_EQ(o.rule[0], static_cast<uint8_t>(Due::kAnything)) << "0 times NaN";
    EXPECT_EQ(o.ratio(0, 1, s.o[1][1]), 0);
    EXPECT_LE(lse.ratio(0, 0, s.lse[1][0]), 1);
    EXPECT_LE(o.ratio(1, 0, s.o[0][2]), 1);
    EXPECT_EQ(due.state[2], RowState::kDead);
    EXPECT_EQ(o.ratio(2, 0, 0.0f), 0);
    EXPECT_EQ(lse.ratio(2, 0, none), 0);
    EXPECT_GT(lse.ratio(2, 0, 0.0f), 1);
    s.plan.isolates_masked_nan = 1;
    EXPECT_EQ(s.due()[TensorId::kO].rule[0], static_cast<uint8_t>(Due::kNumber));
  }
}

// Even if the plan declares another LSE for queries that see no key: the sides have -inf.
TEST(Merge, TwoSidesWithoutKeysKeepTheirLse) {
  Random random(9);
  Sides s(ATTN_F32, 1, 2);
  s.fill(&random, 1);
  s.plan.lse_dead = ATTN_LSE_DEAD_ZERO;
  s.lse[0][0] = s.lse[1][0] = -kInf;
  const Reference due = s.due();
  EXPECT_EQ(due.dead, 1);
  EXPECT_EQ(due[TensorId::kLse].ratio(0, 0, -kInf), 0);
  EXPECT_GT(due[TensorId::kLse].ratio(0, 0, 0), 1);
}

TEST(Merge, ASideFarBelowHasNoPart) {
  Random random(9);
  for (const int32_t rule :
       {ATTN_MERGE_UNKNOWN, ATTN_MERGE_BY_WEIGHT, ATTN_MERGE_BY_LSE, ATTN_MERGE_ONE_BY_ONE}) {
    Sides s(ATTN_BF16, 1, 2);
    s.fill(&random, 1);
    s.plan.merge_rule = rule;
    s.lse[0][0] = 0, s.lse[1][0] = -100;
    const double bound = s.due()[TensorId::kO].bound[0];
    for (const float far : {-1e9f, -1e11f, -1e13f, -0x1.fep127f}) {
      s.lse[1][0] = far;
      EXPECT_LE(s.due()[TensorId::kO].bound[0], 1.01 * bound) << far << " rule " << rule;
      EXPECT_EQ(s.due().uninformative, 0);
    }
  }
}

TEST(Merge, OtherProblemsAreRefused) {
  Sides s(ATTN_F16, 1, 1);
  s.problem.features |= uint64_t{1} << 40;
  EXPECT_THROW(s.due(), UnknownFeatures);
}

}  // namespace
}  // namespace attnfuzz
