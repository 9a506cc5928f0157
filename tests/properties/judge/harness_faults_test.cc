// Tests that this harness lacks the faults by which other checkers let real bugs pass:
// NaN was dropped before comparing, the reference had another mask or other inputs than
// the kernel, a tolerance grew, or nothing ran.
//
// The kernel is right. A Meddler between it and the judge changes the kernel's arguments
// or its results.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string_view>
#include <tuple>
#include <vector>

#include "properties/judge/judge.h"
#include "properties/judge/trial.h"
#include "reference/numbers/formats.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

class Meddler : public FakeTarget {
 public:
  using Ask = std::function<void(attn_problem&, attn_tensors&)>;
  using Answer = std::function<void(const attn_problem&, const attn_tensors&)>;
  Ask ask;             // changes the kernel's arguments
  Answer answer;       // changes the kernel's results
  int runs_of = -1;    // the number of calls that are really made; -1: all
  bool vague = false;  // the plan declares no arithmetic

  PlanReply plan(const attn_problem& p, const attn_tensors& t, const attn_env& env) override {
    PlanReply reply = FakeTarget::plan(p, t, env);
    if (!vague) return reply;
    attn_plan& plan = reply.plan;
    plan.accumulator = plan.exp_class = plan.log_class = plan.rcp_class = plan.tanh_class = 0;
    plan.scale_mode = plan.p_format = plan.partial_format = plan.mma_block = 0;
    return reply;
  }

  RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    if (runs_of == 0) return {};
    if (runs_of > 0) --runs_of;
    attn_problem p = problem;
    attn_tensors t = tensors;
    if (ask) ask(p, t);
    RunReply reply = FakeTarget::run(stage, p, t, plan, env, stream);
    if (answer) answer(problem, tensors);
    return reply;
  }
};

Case gaussian(int32_t dtype, int64_t seq, int v_exponent = 0) {
  Case c;
  Problem& p = c.problem;
  p.dtype = dtype;
  p.seq_q = p.seq_k = seq;
  p.heads_q = p.heads_kv = 2;
  p.dim_qk = p.dim_v = 8;
  p.scale = 0.35f;
  c.q = c.k = c.v = Fill{.kind = FillKind::kGaussian, .seed = 1};
  c.v.exponent = v_exponent;
  return c;
}

uint16_t* at(const attn_tensor& t, int64_t h, int64_t s, int64_t d) {
  return static_cast<uint16_t*>(t.data) + h * t.stride[1] + s * t.stride[2] + d * t.stride[3];
}

void change(const attn_problem& p, const attn_tensor& t, int64_t h, int64_t s, int64_t d,
            const std::function<float(float)>& f) {
  uint16_t* bits = at(t, h, s, d);
  *bits = encode16(p.dtype, f(static_cast<float>(decode(p.dtype, bits, 0))));
}

// Changes every element of the rows of one batch entry.
void change_all(const attn_problem& p, const attn_tensor& t, int64_t heads, int64_t rows, int64_t dims,
                const std::function<float(float)>& f) {
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t s = 0; s < rows; ++s) {
      for (int64_t d = 0; d < dims; ++d) change(p, t, h, s, d, f);
    }
  }
}

void change_o(const attn_problem& p, const attn_tensors& t, const std::function<float(float)>& f) {
  change_all(p, t.o, p.heads_q, p.seq_q, p.dim_v, f);
}

Verdict reference(const Case& c, Target& target) {
  return judge(c, *find_property("reference"), target, documented());
}

class EachDtype : public testing::TestWithParam<int32_t> {};
INSTANTIATE_TEST_SUITE_P(HarnessFaults, EachDtype, testing::Values(ATTN_F16, ATTN_BF16),
                         [](const auto& info) { return info.param == ATTN_F16 ? "F16" : "BF16"; });

TEST_P(EachDtype, AnUnchangedKernelIsRight) {
  for (const bool vague : {false, true}) {
    Meddler target;
    target.vague = vague;
    const Verdict v = reference(gaussian(GetParam(), 20), target);
    EXPECT_EQ(v.outcome, Outcome::kPass) << v.message;
  }
}

// Other checkers dropped positions at which either side is not finite.
TEST_P(EachDtype, NoPositionIsDroppedBecauseTheResultIsNotFinite) {
  const Case c = gaussian(GetParam(), 20);
  for (const float bad : {kNan, kInf, -kInf}) {
    Meddler one, all, lse;
    one.answer = [&](const attn_problem& p, const attn_tensors& t) {
      change(p, t.o, 1, 13, 5, [&](float) { return bad; });
    };
    all.answer = [&](const attn_problem& p, const attn_tensors& t) {
      change_o(p, t, [&](float) { return bad; });
    };
    lse.answer = [&](const attn_problem&, const attn_tensors& t) {
      static_cast<float*>(t.lse.data)[t.lse.stride[2] * 7] = bad;
    };
    for (Meddler* target : {&one, &all, &lse}) {
      const Verdict v = reference(c, *target);
      EXPECT_EQ(v.outcome, Outcome::kFail) << bad;
      // An LSE of -inf is a legal value, but here it is wrong.
      const bool meant = target == &lse && bad == -kInf;
      EXPECT_STREQ(to_string(v.kind), to_string(meant ? Kind::kWrong : Kind::kNonFinite)) << v.message;
    }
    const Verdict v = reference(c, one);
    ASSERT_TRUE(v.where);
    EXPECT_EQ(std::tuple(v.where->h, v.where->q, v.where->d, v.where->bad),
              std::tuple(int64_t{1}, int64_t{13}, int64_t{5}, int64_t{1}));
  }
}

TEST_P(EachDtype, NoPositionIsDroppedBecauseTheReferenceIsNotFinite) {
  Case c = gaussian(GetParam(), 20);
  const uint32_t nan = GetParam() == ATTN_F16 ? 0x7e00 : 0x7fc0;
  c.planted = {{.tensor = TensorId::kV, .h = 1, .s = 3, .d = 2, .bits = nan}};
  Meddler right, healed;
  EXPECT_EQ(reference(c, right).outcome, Outcome::kPass);
  healed.answer = [](const attn_problem& p, const attn_tensors& t) {
    change_o(p, t, [](float o) { return std::isnan(o) ? 0.0f : o; });
  };
  EXPECT_EQ(reference(c, healed).outcome, Outcome::kFail);

  Case dead = gaussian(GetParam(), 20);  // the first rows see no key: LSE is -inf
  dead.problem.causal = true;
  dead.problem.align = ATTN_BOTTOM_RIGHT;
  dead.problem.seq_q = 30;
  for (const float bad : {kNan, kInf, -1e30f, 0.0f}) {
    Meddler target;
    target.answer = [&](const attn_problem&, const attn_tensors& t) { *static_cast<float*>(t.lse.data) = bad; };
    EXPECT_EQ(reference(dead, target).outcome, Outcome::kFail) << bad;
  }
}

// A causal kernel must fail in a case that is not causal, and the other way round; so
// must a causal mask of the other alignment.
TEST_P(EachDtype, TheReferenceHasTheMaskOfTheCase) {
  Case c = gaussian(GetParam(), 20);
  for (const bool causal : {false, true}) {
    c.problem.causal = causal;
    Meddler other;
    other.ask = [](attn_problem& p, attn_tensors&) { p.causal = !p.causal; };
    EXPECT_EQ(reference(c, other).outcome, Outcome::kFail) << causal;
  }
  // A trap of frameworks: with a top-left mask a single query sees only key 0.
  c.problem.seq_q = 1;
  for (const int32_t align : {ATTN_TOP_LEFT, ATTN_BOTTOM_RIGHT}) {
    c.problem.align = align;
    Meddler other;
    other.ask = [](attn_problem& p, attn_tensors&) { p.align = 1 - p.align; };
    EXPECT_EQ(reference(c, other).outcome, Outcome::kFail) << align;
  }
}

// The kernel gets numbers with three bits of mantissa, as in FP8, and the oracle does not.
TEST_P(EachDtype, TheReferenceHasTheInputsThatTheKernelGot) {
  const Case c = gaussian(GetParam(), 20);
  for (const TensorId quantised : {TensorId::kQ, TensorId::kK, TensorId::kV}) {
    Meddler target;
    std::vector<uint16_t> copy;
    target.ask = [&](attn_problem& p, attn_tensors& t) {
      attn_tensor& tensor = quantised == TensorId::kQ ? t.q : quantised == TensorId::kK ? t.k : t.v;
      const int64_t heads = p.heads_q, rows = p.seq_q, dims = p.dim_qk;  // all tensors have these here
      copy.resize(static_cast<size_t>(heads * rows * dims));
      attn_tensor dense = {copy.data(), {0, rows * dims, dims, 1}};
      const int dropped = (p.dtype == ATTN_F16 ? 10 : 7) - 3;
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t s = 0; s < rows; ++s) {
          for (int64_t d = 0; d < dims; ++d) {
            *at(dense, h, s, d) =
                static_cast<uint16_t>((*at(tensor, h, s, d) + (1 << dropped) / 2) & ~((1 << dropped) - 1));
          }
        }
      }
      tensor = dense;
    };
    const Verdict v = reference(c, target);
    EXPECT_EQ(v.outcome, Outcome::kFail) << static_cast<int>(quantised);
    EXPECT_STREQ(to_string(v.kind), to_string(Kind::kWrong)) << v.message;
  }
  // If a kernel overwrites the inputs with the numbers that it used, that is found as well.
  Meddler overwrites;
  overwrites.answer = [](const attn_problem& p, const attn_tensors& t) {
    change(p, t.k, 0, 0, 0, [](float k) { return k + 1; });
  };
  EXPECT_STREQ(to_string(reference(c, overwrites).kind), to_string(Kind::kInputChanged));
}

// A tolerance of max_diff < 0.1 lets all of these pass: at S = 4, outputs of 0 instead of
// 0.02; one element of thousands that is off by 0.1; all elements off by 3 %.
TEST_P(EachDtype, NoToleranceHasGrown) {
  for (const bool vague : {false, true}) {
    const Case small = gaussian(GetParam(), 4, -6);
    Meddler zero, half;
    zero.vague = half.vague = vague;
    zero.answer = [](const attn_problem& p, const attn_tensors& t) {
      change_o(p, t, [](float o) {
        EXPECT_LT(std::fabs(o), 0.1f) << "an absolute tolerance of 0.1 would see nothing";
        return 0.0f;
      });
    };
    half.answer = [](const attn_problem& p, const attn_tensors& t) {
      change_o(p, t, [](float o) { return o / 2; });
    };
    for (Meddler* target : {&zero, &half}) {
      const Verdict v = reference(small, *target);
      EXPECT_EQ(v.outcome, Outcome::kFail) << vague;
      ASSERT_TRUE(v.where);
      EXPECT_EQ(v.where->of, 4 * 8 * 2);
      EXPECT_GT(v.where->bad, v.where->of * 3 / 4) << "nearly every element of O is to be outside";
    }

    const Case usual = gaussian(GetParam(), 64);
    Meddler one, all;
    one.vague = all.vague = vague;
    one.answer = [](const attn_problem& p, const attn_tensors& t) {
      change(p, t.o, 1, 63, 7, [](float o) { return o + 0.1f; });
    };
    all.answer = [](const attn_problem& p, const attn_tensors& t) {
      change_o(p, t, [](float o) { return o * 1.03f; });
    };
    EXPECT_EQ(reference(usual, one).outcome, Outcome::kFail) << vague;
    EXPECT_EQ(reference(usual, all).outcome, Outcome::kFail) << vague;
  }
}

// The reference reads rows where tables say, and a kernel may have written a table.
TEST(HarnessFaults, AKernelThatWritesATableIsReported) {
  Case packed = gaussian(ATTN_F16, 20), paged = packed;
  packed.problem.packed_q = packed.problem.packed_k = Packing{.lengths = {20}};
  paged.problem.key_lengths = {20};
  paged.problem.paging = Paging{.size = 8};
  const auto written = [](const Case& c, const Meddler::Answer& answer) {
    Meddler target;
    target.answer = answer;
    const Verdict v = reference(c, target);
    EXPECT_STREQ(to_string(v.kind), to_string(Kind::kInputChanged)) << v.message;
  };
  constexpr int64_t kFar = int64_t{1} << 40;
  const auto set = [](const void* table) { static_cast<int64_t*>(const_cast<void*>(table))[1] = kFar; };
  written(packed, [&](const attn_problem&, const attn_tensors& t) { set(t.cu_q); });
  written(packed, [&](const attn_problem&, const attn_tensors& t) { set(t.cu_k); });
  written(paged, [&](const attn_problem&, const attn_tensors& t) { set(t.block_table.data); });
}

// The bound does not depend on earlier results.
TEST_P(EachDtype, ABoundIsTheSameAfterAFailure) {
  const Case c = gaussian(GetParam(), 20);
  const auto bound = [&](float by) {
    Meddler target;
    target.answer = [by](const attn_problem& p, const attn_tensors& t) {
      change(p, t.o, 0, 5, 3, [by](float o) { return o + by; });
    };
    const Verdict v = reference(c, target);
    EXPECT_TRUE(v.where) << by;
    return v.where ? v.where->bound : 0;
  };
  EXPECT_EQ(bound(0.5f), bound(100.0f));
}

// If a launch runs nothing, the outputs hold their old content, or the results of an
// earlier call of the case.
TEST_P(EachDtype, AKernelThatRunsNothingDoesNotPass) {
  for (const Poison poison : {Poison::kNan, Poison::kHuge}) {
    for (const int64_t keys : {20, 0}) {
      Case c = gaussian(GetParam(), 20);
      c.problem.seq_k = keys;
      c.poison = poison;
      Meddler never, once;
      never.runs_of = 0;
      EXPECT_EQ(reference(c, never).outcome, Outcome::kFail);
      c.calls = {Call{}, Call{}};
      once.runs_of = 1;
      const Verdict v = reference(c, once);
      EXPECT_EQ(v.outcome, Outcome::kFail);
      EXPECT_EQ(v.call, 1) << v.message;
    }
  }
}

// Equal scores give uniform weights, not NaN, and a right kernel passes.
TEST_P(EachDtype, UniformWeightsAreRight) {
  Case c = gaussian(GetParam(), 33);
  c.q = Fill{.kind = FillKind::kZero};
  for (const FillKind v : {FillKind::kOneHot, FillKind::kConstant, FillKind::kPosition}) {
    c.v = Fill{.kind = v};
    for (const Property* property : properties()) {
      FakeTarget target;
      const Verdict verdict = judge(c, *property, target, documented());
      EXPECT_NE(verdict.outcome, Outcome::kFail) << property->name << ": " << verdict.message;
      if (std::string_view(property->name) == "reference") EXPECT_EQ(verdict.outcome, Outcome::kPass);
    }
  }
}

}  // namespace
}  // namespace attnfuzz
