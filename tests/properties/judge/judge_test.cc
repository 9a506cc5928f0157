// Tests judge.h with handmade replies, memory and outputs, and with relations between such runs.
#include "properties/judge/judge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "properties/data/recipe.h"
#include "properties/judge/trial.h"
#include "reference/model/error_cap.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

Problem small_problem(int64_t columns = 3) {
  Problem p;
  p.batch = 1;
  p.heads_q = p.heads_kv = 2;
  p.seq_q = p.seq_k = 4;
  p.dim_qk = p.dim_v = columns;
  return p;
}

Expected output(TensorId tensor, int64_t rows, int64_t columns, double bound) {
  const auto n = static_cast<size_t>(rows * columns);
  Expected e;
  e.tensor = tensor, e.columns = columns;
  e.value.resize(n);
  for (size_t i = 0; i < n; ++i) e.value[i] = 1 + static_cast<double>(i) / 8;
  e.bound.assign(n, bound);
  e.rule.assign(n, 0);
  e.overflow = 65504;
  e.logarithm = tensor == TensorId::kLse;
  return e;
}

// Eight rows with a bound of 1/4, and a kernel's result, which equals the expected values.
struct Made {
  Problem p = small_problem();
  attn_plan plan = {};
  Reference reference;
  Outputs got;
  Made() {
    plan.tile_q = 2;
    reference.rows = reference.sampled = 8;
    reference.state.assign(8, RowState::kBounded);
    reference.outputs = {output(TensorId::kO, 8, 3, 0.25), output(TensorId::kLse, 8, 1, 0.25)};
    for (const Expected& e : reference.outputs) got[e.tensor].assign(e.value.begin(), e.value.end());
  }
  float& o(int64_t row, int64_t column) { return got[TensorId::kO][static_cast<size_t>(row * 3 + column)]; }
  Verdict verdict() const {
    Verdict v;
    judge_outputs(operations::forward, reference, p, plan, got, v);
    return v;
  }
};

TEST(JudgeOutputs, ReportTheWorstRatioOfAPass) {
  Made made;
  EXPECT_EQ(made.verdict().worst, 0);
  made.o(2, 1) += 0.125f;
  const Verdict v = made.verdict();
  EXPECT_EQ(v.outcome, Outcome::kPass);
  EXPECT_EQ(v.worst, 0.5);
  EXPECT_EQ(v.ratios, std::vector<float>{0.5f});
}

TEST(JudgeOutputs, TheFirstElementBeyondItsBoundIsNamed) {
  Made made;
  made.o(5, 2) += 1, made.o(6, 0) += 8, made.o(1, 1) += 0.125f;
  const Verdict v = made.verdict();
  EXPECT_EQ(v.kind, Kind::kWrong);
  EXPECT_EQ(v.worst, 32);
  ASSERT_TRUE(v.where);
  EXPECT_EQ((std::array{v.where->b, v.where->h, v.where->q, v.where->d, v.where->tile_q}),
            (std::array<int64_t, 5>{0, 1, 1, 2, 0}));
  EXPECT_EQ(v.message,
            "o(b=0,h=1,q=1,d=2) is 4.125, must be 3.125 +- 0.25 (error/bound 4); 2 of 24 elements are outside; "
            "LSE is "
            "right");
  made.o(6, 0) -= 8;
  EXPECT_EQ(text_of(made.verdict().shapes), "one element, (0,1,1,2)")
      << "elements within their bound are not marked";
  made.o(5, 2) -= 1, made.o(0, 0) += 1;
  EXPECT_EQ(text_of(made.verdict().shapes), "one element, (0,0,0,0)");
}

TEST(JudgeOutputs, ElementsThatMustBeNanOrDead) {
  Made made;
  made.reference[TensorId::kO].rule[3] =
      static_cast<uint8_t>(Due::kMustBeNaN);  // only the first element of the row
  Verdict v = made.verdict();
  EXPECT_EQ(v.kind, Kind::kNonFinite);
  EXPECT_NE(v.message.find("is 1.375, but a NaN is visible to this query: it must be NaN"), std::string::npos)
      << v.message;
  made.o(1, 0) = std::nanf("");
  EXPECT_EQ(made.verdict().outcome, Outcome::kPass);

  Made dead;
  dead.reference.state[7] = RowState::kDead;
  dead.reference[TensorId::kLse].fill_row(7, Due::kNumber, -INFINITY, 0);
  dead.got[TensorId::kLse][7] = 3;
  v = dead.verdict();
  EXPECT_EQ(v.kind, Kind::kWrong) << "a number instead of -inf";
  EXPECT_NE(v.message.find("is 3, but no key is visible to this query: it must be exactly -inf"),
            std::string::npos)
      << v.message;
  dead.got[TensorId::kLse][7] = std::nanf("");
  EXPECT_EQ(dead.verdict().kind, Kind::kNonFinite);
}

TEST(JudgeSame, NamesTheFirstDifferentBits) {
  Made a, b;
  b.o(5, 2) += 1, b.o(6, 1) += 1, a.o(6, 2) = b.o(6, 2) = std::nanf("");
  Verdict v;
  EXPECT_FALSE(judge_same(a.got, b.got, a.p, a.plan, Kind::kDirty, "they differ", v));
  EXPECT_EQ(v.message, "they differ: o(b=0,h=1,q=1,d=2) was 3.125, is 4.125; 2 of 24 elements differ");
  ASSERT_TRUE(v.where);
  EXPECT_EQ(v.where->expected, 3.125);
  EXPECT_EQ(v.where->got, 4.125);
}

TEST(JudgeSame, ComparesUpToTheShorterLength) {
  const float nan = std::nanf(""), a[] = {1, nan, 3, 5}, b[] = {1, -nan, 3, 6};
  const auto first = [](std::span<const float> x, size_t n) { return x.first(n); };
  EXPECT_EQ(first_difference(first(a, 4), first(b, 2)), 2);
  EXPECT_EQ(first_difference(first(a, 1), first(b, 2)), 1);
  EXPECT_EQ(first_difference(first(a, 2), first(b, 2)), std::nullopt);
}

TEST(JudgeShape, OfTilesHeadsAndKeys) {
  Made made;
  Case c;
  c.problem = made.p;
  c.v = Fill{.kind = FillKind::kGaussian, .seed = 1};
  const auto shape = [&](std::span<const uint8_t> bad) {
    return text_of(shape_of(made.reference, made.reference[TensorId::kO], made.p, made.plan,
                            made.got[TensorId::kO], &c, bad));
  };
  std::vector<uint8_t> bad(24);
  std::fill_n(bad.begin(), 6, 1), std::fill_n(bad.begin() + 12, 6, 1);
  EXPECT_EQ(shape(bad).rfind("only query tile 0; ", 0), 0u) << shape(bad);
  made.plan.tile_q = 1;
  EXPECT_EQ(where_is(TensorId::kO, made.p, made.plan, 7, 0).tile_q, 3);
  made.plan.tile_q = 0;
  EXPECT_EQ(where_is(TensorId::kO, made.p, made.plan, 7, 0).tile_q, 0);
  for (int64_t row = 0; row < 8; ++row) {
    const std::vector<double> v = matrix_at(c, TensorId::kV, 0, row / 4);
    for (int64_t column = 0; column < 3; ++column) made.o(row, column) = static_cast<float>(v[3 * 3 + column]);
  }
  EXPECT_EQ(shape(std::vector<uint8_t>(24, 1)), "only the last key's contribution");
}

TEST(JudgeShape, OfKeysHasTilesOfKeys) {
  Made made;
  Problem p = made.p;
  p.features |= ATTN_FEATURE_BACKWARD;
  p.heads_kv = 1, p.seq_k = 6, p.dim_qk = 1;
  made.plan.tile_q = 4, made.plan.tile_k = 2;
  Expected due;
  due.tensor = TensorId::kDk, due.columns = 1;
  const size_t count = static_cast<size_t>(p.batch * p.seq_k);
  due.value.assign(count, 0);
  const std::vector<float> got(count, 1);
  std::vector<uint8_t> bad(count);
  bad[2] = bad[3] = 1;
  const std::string shape = text_of(shape_of(made.reference, due, p, made.plan, got, nullptr, bad));
  EXPECT_NE(shape.find("only key tile 1"), std::string::npos) << shape;
}

TEST(JudgePlan, EachReplyHasItsVerdict) {
  const auto judged = [](const PlanReply& reply) {
    Verdict v;
    EXPECT_FALSE(accept_plan(reply, v));
    return v;
  };
  PlanReply reply;
  reply.status = ATTN_UNSUPPORTED, reply.reason = "too wide";
  EXPECT_EQ(judged(reply).message, "refused: too wide");
  EXPECT_TRUE(judged(reply).refused);
  EXPECT_EQ(judged(reply).site, "");
  reply.crash = "SIGFPE in plan()", reply.exit_reason = ExitReason::kArithmetic, reply.site = "libmine.so+0x1";
  const Verdict died = judged(reply);
  EXPECT_EQ(died.kind, Kind::kCrash);
  EXPECT_EQ(died.exit_reason, ExitReason::kArithmetic);
  EXPECT_EQ(died.site, "libmine.so+0x1");
  Verdict ended;
  fail(ended, Kind::kWrong, "wrong");
  EXPECT_FALSE(accept_plan(reply, ended));
  EXPECT_EQ(ended.site + ended.message, "wrong") << "it stays as it is";
  PlanReply short_of_memory;
  short_of_memory.status = ATTN_UNSUPPORTED, short_of_memory.no_memory = "no free memory";
  EXPECT_EQ(judged(short_of_memory).outcome, Outcome::kNotJudged);
  EXPECT_EQ(judged(short_of_memory).message, "no free memory");
  EXPECT_FALSE(judged(short_of_memory).refused) << "the kernel was not asked";
  EXPECT_EQ(failure(short_of_memory), "no free memory");
  PlanReply late;
  late.timed_out = true;
  EXPECT_EQ(failure(late), "plan() did not return");
}

TEST(JudgeRun, EachReplyHasItsVerdict) {
  RunReply reply;
  EXPECT_EQ(failure(reply), "");
  const auto judged = [&](attn_status status) {
    Verdict v;
    reply.status = status;
    EXPECT_FALSE(accept_run(reply, v));
    return v;
  };
  EXPECT_NE(judged(ATTN_LAUNCH_FAILED).message.find("launched nothing"), std::string::npos);
  EXPECT_EQ(judged(ATTN_FAULT).message, "run() answered ATTN_FAULT");
  EXPECT_EQ(judged(ATTN_INVALID).kind, Kind::kRefusal);
  EXPECT_EQ(failure(reply), "run() answered status " + std::to_string(ATTN_INVALID));
  reply.no_memory = "no free memory";
  EXPECT_EQ(judged(ATTN_UNSUPPORTED).outcome, Outcome::kNotJudged) << "the kernel did not run";
  EXPECT_EQ(failure(reply), "no free memory");
  reply.no_memory.reset();
  reply.timed_out = true;
  EXPECT_EQ(failure(reply), "it did not come back");
  EXPECT_EQ(judged(ATTN_FAULT).kind, Kind::kHang);
  reply.slow = Slow{37, 512, 60.04};
  const Verdict slow = judged(ATTN_FAULT);
  EXPECT_EQ(slow.kind, Kind::kSlow);
  EXPECT_EQ(slow.message, "slow: 37 of 512 blocks after 60 s of processor time; --watchdog gives it longer");
  EXPECT_STREQ(kind_class(slow.kind), "slow") << "no hang is reduced to it";
}

TEST(JudgeMemory, NamesThePlaceInOutputs) {
  const Made made;
  const auto judged = [&](MemoryFault::Kind kind, TensorId tensor) {
    Verdict v;
    EXPECT_FALSE(accept_memory(MemoryFault{kind, tensor, {0, 1, 3, 2}, "written"}, made.p, made.plan, v));
    return v;
  };
  const Verdict unwritten = judged(MemoryFault::Kind::kUnwritten, TensorId::kO);
  ASSERT_TRUE(unwritten.where);
  EXPECT_EQ(name_of(*unwritten.where), "o(b=0,h=1,q=3,d=2)");
  EXPECT_EQ(unwritten.where->of, 24);
  EXPECT_EQ(unwritten.where->tile_q, 1);
  EXPECT_FALSE(judged(MemoryFault::Kind::kTooEarly, TensorId::kO).where);
  EXPECT_FALSE(judged(MemoryFault::Kind::kRedzone, TensorId::kK).where);
}

// Two handmade runs of eight rows that a relation compares.
struct Related {
  FakeTarget target;
  Trial trial{Case{}, target, documented()};
  Run a, b;
  Related() {
    for (Run* run : {&a, &b}) {
      const Made made;
      run->c.problem = made.p;
      run->plan = made.plan;
      run->reference = made.reference;
      run->calls = {made.got};
    }
  }
  float& o(int64_t row, int64_t column) {
    return b.calls[0][TensorId::kO][static_cast<size_t>(row * 3 + column)];
  }
};

TEST(Relation, RowsMayDifferByBothBounds) {
  Related r;
  r.o(3, 1) += 0.5f;
  EXPECT_TRUE(r.trial.all_within(r.a, r.b, "doubled"));
  r.o(4, 1) += 0.625f;
  EXPECT_FALSE(r.trial.all_within(r.a, r.b, "doubled"));
  const Verdict& v = r.trial.verdict();
  EXPECT_EQ(v.kind, Kind::kRelation);
  EXPECT_EQ(
      v.message,
      "doubled: o(b=0,h=1,q=0,d=1) is 2.625 in one and 3.25 in the other, which may differ by 0.5 at most");
  ASSERT_TRUE(v.where);
  EXPECT_EQ((std::array{v.where->expected, v.where->got, v.where->bound}), (std::array{2.625, 3.25, 0.5}));
  EXPECT_EQ(v.where->of, 1);
  EXPECT_EQ(v.where->bad, 1);
}

TEST(Relation, UninformativeRowsDoNotFail) {
  Related r;
  r.a.reference.state[0] = RowState::kUninformative;
  r.b.reference.state[1] = RowState::kNaN;
  r.o(0, 0) = r.o(1, 0) = 99;
  EXPECT_TRUE(r.trial.all_within(r.a, r.b, "same"));
  r.a.reference.state[2] = r.b.reference.state[2] = RowState::kDead;
  r.o(2, 0) = 99;
  EXPECT_TRUE(r.trial.all_within(r.a, r.b, "same")) << "each was held to 0";
  r.o(3, 0) = INFINITY;
  EXPECT_TRUE(r.trial.all_within(r.a, r.b, "same")) << "each was held to the rule for what overflows";
  r.a.reference.state[5] = RowState::kDead;
  r.o(5, 0) = 99;
  EXPECT_FALSE(r.trial.all_within(r.a, r.b, "same")) << "one sees keys and the other none";
}

TEST(Relation, DifferentBitsAreReportedWithoutABound) {
  Related r;
  r.o(4, 1) += 0.125f;
  EXPECT_TRUE(r.trial.same_bits(r.a, 3, r.b, 3, "alone"));
  EXPECT_FALSE(r.trial.same_bits(r.a, 4, r.b, 4, "alone"));
  EXPECT_EQ(r.trial.verdict().message,
            "alone: o(b=0,h=1,q=0,d=1) is 2.625 in one and 2.75 in the other, must be bit-identical");
}

Case simple(int64_t length) {
  Case c;
  c.problem.heads_q = c.problem.heads_kv = 2;
  c.problem.seq_q = c.problem.seq_k = length;
  c.problem.dim_qk = c.problem.dim_v = 8;
  c.q = c.k = c.v = Fill{.kind = FillKind::kGaussian, .seed = 1};
  return c;
}

TEST(Trial, AVariantThatCannotBeRunIsNamed) {
  FakeTarget target;
  Trial trial(simple(9), target, documented());
  ASSERT_TRUE(trial.run(simple(9)));
  Case bad = simple(9);
  bad.problem.heads_q = 3;
  EXPECT_FALSE(trial.run(bad, "three heads"));
  EXPECT_EQ(trial.verdict().message.rfind("variant \"three heads\": cannot be run: ", 0), 0u)
      << trial.verdict().message;
  EXPECT_EQ(trial.verdict().call, 1);
}

TEST(Trial, AnUnknownArithmeticIsRejected) {
  FakeTarget target;
  Case c = simple(9);
  c.env.arithmetic = ATTN_ARITHMETIC_H200;
  Trial trial(c, target, documented());
  EXPECT_FALSE(trial.run(c));
  EXPECT_EQ(trial.verdict().outcome, Outcome::kRefused);
  EXPECT_EQ(trial.verdict().message.rfind("cannot be judged: it is in the arithmetic ", 0), 0u)
      << trial.verdict().message;
}

TEST(Trial, CallsThatDifferSayWhere) {
  FakeTarget target(Flaw::kCountsCalls);
  Case c = simple(9);
  c.calls = {Call{}, Call{.stream = 1}};
  const Verdict v = judge(c, *find_property("reference"), target, documented());
  EXPECT_EQ(v.kind, Kind::kDirty) << v.message;
  EXPECT_NE(v.message.find("call 1 gives another result than call 0, on another stream"), std::string::npos);
  ASSERT_TRUE(v.where);
  EXPECT_NE(v.where->got, v.where->expected);
}

TEST(Trial, TheDeclaredShareIsMeasuredAgainstTheBestPlan) {
  struct Loose final : FakeTarget {
    PlanReply plan(const attn_problem& p, const attn_tensors& t, const attn_env& env) override {
      PlanReply reply = FakeTarget::plan(p, t, env);
      reply.plan.exp_class = ATTN_EXP_UNKNOWN;
      reply.plan.accumulator = ATTN_ACC_UNKNOWN;
      return reply;
    }
  };
  Calibration cap = documented();
  cap.error_cap = documented_cap();
  Loose target;
  const Verdict v = judge(simple(33), *find_property("reference"), target, cap);
  ASSERT_TRUE(v.declared) << v.message;
  EXPECT_GT(*v.declared, 0.01);
  // The same share, computed from the oracle's references of all rows.
  const Case c = simple(5);
  Execution e(c, target);
  Calibration best = cap;
  best.error_cap = best_plan();
  const Reference declared = e.evaluate(cap), least = e.evaluate(best);
  double all = 0, needed = 0;
  for (int64_t i = 0; i < 2 * 5 * 8; ++i) {
    all += declared[TensorId::kO].allowance(i);
    needed += std::min(declared[TensorId::kO].allowance(i), least[TensorId::kO].allowance(i));
  }
  const auto share = judge(c, *find_property("reference"), target, cap).declared;
  ASSERT_TRUE(share);
  EXPECT_DOUBLE_EQ(*share, 1 - needed / all);
  Case none = c;
  none.problem.seq_k = 0;
  EXPECT_FALSE(judge(none, *find_property("reference"), target, cap).declared) << "no row has a bound";
}

TEST(Trial, RunsThatAreGivenAreTakenInTheirOrder) {
  FakeTarget target;
  Trial first(simple(9), target, documented());
  auto given = std::make_unique<GivenRun>();
  given->run = *first.run(simple(9));
  given->worst = 0.5, given->sampled = 18, given->dead = 1, given->uninformative = 2, given->unconstrained = 3;
  given->assumptions = {{Assumption::Part::kExp, "one"}};
  const std::unique_ptr<GivenRun> all[] = {std::move(given)};
  GivenRuns runs = {.runs = all, .lacking = {}};
  Trial trial(simple(9), target, documented(), runs);
  EXPECT_EQ(trial.run(simple(9)), &all[0]->run);
  const Verdict& v = trial.verdict();
  EXPECT_EQ(v.outcome, Outcome::kPass) << v.message;
  EXPECT_EQ((std::array{v.rows, v.sampled, v.dead_rows, v.uninformative_rows, v.unconstrained_rows}),
            (std::array<int64_t, 5>{18, 18, 1, 2, 3}));
  EXPECT_EQ(v.worst, 0.5);
  EXPECT_EQ(v.assumptions, (std::vector<Assumption>{{Assumption::Part::kExp, "one"}}));
  EXPECT_FALSE(trial.run(simple(8), "shorter"));
  EXPECT_EQ(v.outcome, Outcome::kNotJudged);
  ASSERT_TRUE(runs.lacking);
  EXPECT_EQ(runs.lacking->problem.seq_q, 8);
}

}  // namespace
}  // namespace attnfuzz
