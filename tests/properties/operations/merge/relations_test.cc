// Tests properties of merges: each holds for a right kernel, and finds a kernel that breaks only its statement.
#include <gtest/gtest.h>

#include <cmath>

#include "properties/case/features/shrink_toggles.h"
#include "properties/draw/generator.h"
#include "properties/judge/trial.h"
#include "reference/emulator/device.h"
#include "tests/fuzz/batch/oracle_target.h"

namespace attnfuzz {
namespace {

// Merges as the oracle does. Its plan declares `order` and `rule`. It moves each LSE, or each O of fp32, by
// `steps` neighbouring numbers: within the bounds, but not as declared. From call `late` on, it takes the first
// side for both.
class MergeTarget final : public OracleTarget {
 public:
  int32_t order = ATTN_MERGE_ASCENDING, rule = ATTN_LSE_BY_FMA;
  float exp_error = 0;
  int lse_steps = 0, o_steps = 0, late = 1 << 30;

  explicit MergeTarget(uint64_t features = kMerge) : OracleTarget(nullptr, features) {}
  PlanReply plan(const attn_problem& p, const attn_tensors& t, const attn_env& env) override {
    PlanReply reply = OracleTarget::plan(p, t, env);
    reply.plan.merge_rule = ATTN_MERGE_BY_WEIGHT;
    reply.plan.merge_order = order, reply.plan.lse_rule = rule, reply.plan.exp_error = exp_error;
    return reply;
  }
  RunReply run(Stage stage, const attn_problem& p, const attn_tensors& t, const attn_plan& plan,
               const attn_env& env, int stream) override {
    attn_tensors read = t;
    if (calls_++ >= late) read.o2 = t.o1, read.lse2 = t.lse1;
    const RunReply reply = OracleTarget::run(stage, p, read, plan, env, stream);
    const RowSpace rows(p);
    for (int64_t row = 0; row < rows.count(); ++row) {
      const auto [b, h, i] = rows.at(row);
      if (t.lse.data != nullptr) move(static_cast<float*>(t.lse.data)[offset_of(t.lse, b, h, i, 0)], lse_steps);
      for (int64_t c = 0; c < p.dim_v && p.dtype == ATTN_F32; ++c)
        move(static_cast<float*>(t.o.data)[offset_of(t.o, b, h, i, c)], o_steps);
    }
    return reply;
  }

 private:
  static void move(float& x, int steps) {
    for (int n = 0; n < steps && std::isfinite(x) && x != 0; ++n) x = std::nextafter(x, 2 * x);
  }
  int calls_ = 0;
};

Verdict judged_merge(const char* property, const Case& c, Target& target) {
  return judge(c, *find_property(property), target, documented());
}

// One of two sides saw keys.
Case one_side(int32_t dtype) {
  Case c;
  operation_of(ATTN_FEATURE_MERGE).shape(c, 0);
  c.problem.dtype = dtype;
  if (dtype == ATTN_F32) c.problem.features |= ATTN_FEATURE_F32;
  c.problem.seq_q = 5, c.problem.dim_v = 3;
  c.o1 = c.o2 = {.kind = FillKind::kGaussian, .seed = 3};
  c.lse1 = c.lse2 = {.kind = FillKind::kGaussian, .exponent = 3, .seed = 4};
  c.sides = {.kind = PatternKind::kFirstKey};
  tidy(c);
  return c;
}

TEST(MergeRelations, ARightKernelPasses) {
  for (const char* name : {"merge_empty_side", "merge_attended"}) {
    MergeTarget right;
    int passed = 0;
    for (uint64_t index = 0; index < 200; ++index) {
      const Case c = draw({.features = OracleTarget::kMerge, .work = 100'000}, 11, index);
      const Verdict v = judged_merge(name, c, right);
      ASSERT_NE(v.outcome, Outcome::kFail) << name << ", case " << index << ": " << v.message;
      passed += v.outcome == Outcome::kPass;
    }
    EXPECT_GT(passed, 180) << name;
  }
}

// Only the relation sees a result that is one step off, and only if the plan excludes it: `permit` lifts that.
void expect_one_step_is_found(const Case& c, MergeTarget& rounds, const char* words, void (*permit)(MergeTarget&)) {
  EXPECT_EQ(judged_merge("reference", c, rounds).outcome, Outcome::kPass) << "it is within its bound";
  const Verdict v = judged_merge("merge_empty_side", c, rounds);
  EXPECT_EQ(v.kind, Kind::kRelation) << v.message;
  EXPECT_NE(v.message.find(words), std::string::npos) << v.message;
  permit(rounds);
  EXPECT_EQ(judged_merge("merge_empty_side", c, rounds).outcome, Outcome::kPass) << "its plan does not exclude it";
}

TEST(MergeRelations, AnEmptySideLeavesTheOthersLse) {
  MergeTarget rounds;
  rounds.lse_steps = 1;
  expect_one_step_is_found(one_side(ATTN_F16), rounds, "must be lse1",
                           [](MergeTarget& target) { target.rule = ATTN_LSE_UNKNOWN; });
}

TEST(MergeRelations, AnEmptySideLeavesTheOthersO) {
  MergeTarget rounds;
  rounds.o_steps = 1;
  expect_one_step_is_found(one_side(ATTN_F32), rounds, "must be o1",
                           [](MergeTarget& target) { target.order = ATTN_MERGE_ANY; });
}

TEST(MergeRelations, AnEmptySideSaysWhetherItComparesBits) {
  MergeTarget known;
  const Case c = one_side(ATTN_F32), narrow = one_side(ATTN_F16);
  const Verdict both = judged_merge("merge_empty_side", c, known);
  EXPECT_TRUE(both.by_bits);
  EXPECT_EQ(both.by_bounds, "");
  known.rule = ATTN_LSE_UNKNOWN;
  const Verdict only_o = judged_merge("merge_empty_side", c, known);
  EXPECT_TRUE(only_o.by_bits);
  EXPECT_EQ(only_o.by_bounds, "LSE: the plan leaves lse_rule open");
  MergeTarget polynomial;  // its exp2(0) may be 1 - 2^-24
  polynomial.exp_error = 0x1p-13f;
  const Verdict neither = judged_merge("merge_empty_side", c, polynomial);
  EXPECT_EQ(neither.outcome, Outcome::kRefused);
  EXPECT_NE(neither.message.find("O: the exponential has no declared class"), std::string::npos) << neither.message;
  EXPECT_NE(neither.message.find("LSE: the exponential has no declared class"), std::string::npos) << neither.message;
  EXPECT_FALSE(neither.by_bits);
  EXPECT_TRUE(judged_merge("merge_empty_side", narrow, polynomial).by_bits) << "rounding to 16 bits hides it";
}

// Planted LSEs of dead sides would contradict the pattern.
TEST(MergeRelations, PlantedLsesAreDropped) {
  for (const char* name : {"merge_empty_side", "merge_sides_swapped"}) {
    Case c = one_side(ATTN_F32);
    c.planted = {{.tensor = TensorId::kLse1, .bits = 0x41200000}, {.tensor = TensorId::kO1, .bits = 0x3f800000}};
    MergeTarget target;
    std::string why;
    ASSERT_TRUE(adapted(c, *find_property(name), target, &why)) << why;
    ASSERT_EQ(c.planted.size(), 1u) << name;
    EXPECT_EQ(c.planted[0].tensor, TensorId::kO1) << name;
  }
}

// merge_empty_side relies on this.
TEST(MergeRelations, WeightsOfOneAreExact) {
  for (const int32_t arithmetic : {ATTN_ARITHMETIC_H200, ATTN_ARITHMETIC_A100, ATTN_ARITHMETIC_L40S}) {
    const emulator::Device device = emulator::device_of(arithmetic);
    EXPECT_EQ(device.ex2(0), 1) << arithmetic;
    EXPECT_EQ(device.rcp(1), 1) << arithmetic;
    EXPECT_EQ(device.lg2(1), 0) << arithmetic;
  }
}

TEST(MergeRelations, AttendedSidesAreJudged) {
  MergeTarget wrong;
  wrong.late = 1;
  const Verdict v = judged_merge("merge_attended", one_side(ATTN_F16), wrong);
  EXPECT_EQ(v.outcome, Outcome::kFail);
  Case both = one_side(ATTN_BF16);
  both.sides = {};
  MergeTarget again;
  again.late = 1;
  EXPECT_EQ(judged_merge("merge_attended", both, again).outcome, Outcome::kFail);
}

constexpr uint64_t kInPlace = OracleTarget::kMerge | ATTN_FEATURE_IN_PLACE;

// Takes cases in place only.
Case in_place(uint64_t index) {
  Case c = draw({.features = kInPlace, .work = 100'000}, 13, index);
  operation_of(ATTN_FEATURE_MERGE).shape(c, 0);
  c.problem.features |= ATTN_FEATURE_IN_PLACE;
  tidy(c);
  return c;
}

TEST(MergeRelations, AMergeInPlaceIsJudgedLikeAnyOther) {
  for (const char* name : {"reference", "repeat", "layout", "merge_sides_swapped", "merge_scaled",
                           "merge_empty_side", "merge_attended"}) {
    MergeTarget right(kInPlace);
    int passed = 0;
    for (uint64_t index = 0; index < 60; ++index) {
      const Case c = in_place(index);
      const Verdict v = judged_merge(name, c, right);
      ASSERT_NE(v.outcome, Outcome::kFail) << name << ", case " << index << ": " << v.message;
      passed += v.outcome == Outcome::kPass;
    }
    EXPECT_GT(passed, 50) << name;
  }
}

// Merges twice: the second merge reads what the first has written.
class MergesTwice final : public OracleTarget {
 public:
  MergesTwice() : OracleTarget(nullptr, kInPlace) {}
  RunReply run(Stage stage, const attn_problem& p, const attn_tensors& t, const attn_plan& plan,
               const attn_env& env, int stream) override {
    OracleTarget::run(stage, p, t, plan, env, stream);
    return OracleTarget::run(stage, p, t, plan, env, stream);
  }
};

TEST(MergeRelations, AMergeOfItsOwnResultIsFound) {
  int found = 0;
  for (uint64_t index = 0; index < 30; ++index) {
    Case c = in_place(index);
    c.calls = {Call{}};
    MergesTwice wrong;
    found += judged_merge("reference", c, wrong).outcome == Outcome::kFail;
    c.problem.features &= ~ATTN_FEATURE_IN_PLACE;
    EXPECT_NE(judged_merge("reference", c, wrong).outcome, Outcome::kFail) << index;
  }
  EXPECT_GT(found, 15);
}

}  // namespace
}  // namespace attnfuzz
