// Tests checks and reductions of kernels that hang, are slow, or answer with absurd plans. A hang is reported
// only if it used up the full watch.
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "fuzz/check/check.h"
#include "fuzz/check/epochs.h"
#include "fuzz/check/failure/earlier.h"
#include "fuzz/check/failure/exploits.h"
#include "fuzz/check/shard.h"
#include "fuzz/check/takes/declaration.h"
#include "fuzz/check/takes/refusals.h"
#include "fuzz/check/takes/sizes_taken.h"
#include "properties/case/features/domain.h"
#include "properties/case/features/feature.h"
#include "properties/case/words.h"
#include "properties/draw/draw.h"
#include "properties/draw/generator.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

// Reports a timeout if `hangs` returns true for the problem and the watch.
class WatchedTarget : public FakeTarget {
 public:
  using Hangs = std::function<bool(const attn_problem&, Watch)>;
  explicit WatchedTarget(Hangs hangs) : hangs_(std::move(hangs)) {}

  void watch(Watch watch) override { watch_ = watch; }
  RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    ++(watch_ == Watch::kFull ? full_runs : brief_runs);
    if (!hangs_(problem, watch_)) return FakeTarget::run(stage, problem, tensors, plan, env, stream);
    RunReply reply;
    reply.status = ATTN_FAULT;
    reply.timed_out = true;
    return reply;
  }

  int full_runs = 0, brief_runs = 0;

 private:
  Hangs hangs_;
  Watch watch_ = Watch::kFull;
};

// Reduces a case of 100 keys, which must hang.
Reduction reduce_hang(WatchedTarget& target) {
  Case c;
  c.problem.seq_q = 3;
  c.problem.seq_k = 100;
  const Property& reference = *find_property("reference");
  const Verdict verdict = judge(c, reference, target, executor());
  EXPECT_EQ(verdict.kind, Kind::kHang);
  target.full_runs = target.brief_runs = 0;
  ReduceOptions options;
  options.seconds = 60;
  return reduce_failure(c, verdict, reference, target, executor(), options);
}

TEST(ReduceFailure, GivesCandidatesTheBriefWatchAndTheMinimalOneTheFull) {
  WatchedTarget target([](const attn_problem& p, Watch) { return p.seq_k >= 33; });
  const Reduction r = reduce_hang(target);
  EXPECT_EQ(r.minimal.problem.seq_k, 33) << describe(r.minimal);
  EXPECT_EQ(r.verdict.kind, Kind::kHang);
  EXPECT_EQ(target.full_runs, 1);
  EXPECT_GT(target.brief_runs, 1);
}

TEST(ReduceFailure, TakesNoSlowCaseForAHang) {
  WatchedTarget target(
      [](const attn_problem& p, Watch watch) { return p.seq_k >= (watch == Watch::kFull ? 33 : 3); });
  EXPECT_EQ(reduce_hang(target).minimal.problem.seq_k, 33);
}

// Wrong, and so slow that the brief watch would end it.
class SlowWrongTarget : public WatchedTarget {
 public:
  SlowWrongTarget()
      : WatchedTarget(
            [](const attn_problem& p, Watch watch) { return watch == Watch::kBrief && p.seq_k > 8; }) {}
  RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    attn_problem wrong = problem;
    wrong.scale *= 2;
    return WatchedTarget::run(stage, wrong, tensors, plan, env, stream);
  }
};

TEST(Confirm, ReportsWrongNumbersOfASlowKernelAsWrong) {
  SlowWrongTarget target;
  Case c;
  c.problem.seq_q = 3;
  c.problem.seq_k = 20;
  c.q.kind = c.k.kind = c.v.kind = FillKind::kGaussian;
  const Property& reference = *find_property("reference");
  const Verdict verdict = judge(c, reference, target, executor());
  ASSERT_EQ(verdict.kind, Kind::kWrong);
  const auto again = confirm(c, verdict, reference, target, executor());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->kind, Kind::kWrong);
  const Reduction r = reduce_failure(c, verdict, reference, target, executor(), {.seconds = 60});
  EXPECT_EQ(r.verdict.kind, Kind::kWrong);
}

// Right for the first `right` calls in one worker, then wrong.
class TiringTarget : public FakeTarget {
 public:
  explicit TiringTarget(int right) : right_(right) {}
  void renew() override { calls_ = 0; }
  RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    attn_problem tired = problem;
    if (++calls_ > right_) tired.scale = problem.scale * 2 + 1;
    return FakeTarget::run(stage, tired, tensors, plan, env, stream);
  }

 private:
  int right_, calls_ = 0;
};

TEST(EarlierCases, AreFewWhereTheNumberOfCallsMatters) {
  TiringTarget target(40);
  CheckOptions options;
  options.properties = {find_property("reference")};
  options.work = 20'000;
  Failure failure;
  failure.property = options.properties[0];
  failure.index = 300;
  failure.c.problem.seq_q = failure.c.problem.seq_k = 5;
  failure.c.q.kind = failure.c.k.kind = failure.c.v.kind = FillKind::kGaussian;
  for (int n = 0; n < 41; ++n) failure.verdict = judge(failure.c, *failure.property, target, executor());
  ASSERT_EQ(failure.verdict.outcome, Outcome::kFail);
  const auto before = earlier_cases(failure, target, executor(), options, 60);
  ASSERT_TRUE(before);
  EXPECT_LE(before->size(), kFewEarlier);
}

// Uses the scale of the first call of a shape for all calls of that shape.
class CachingTarget : public FakeTarget {
 public:
  void renew() override { known_.reset(); }
  RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    const bool same = known_ && known_->seq_q == problem.seq_q && known_->seq_k == problem.seq_k &&
                      known_->dim_qk == problem.dim_qk && known_->dim_v == problem.dim_v;
    if (!same) known_ = problem;
    attn_problem stale = problem;
    stale.scale = known_->scale;
    return FakeTarget::run(stage, stale, tensors, plan, env, stream);
  }

 private:
  std::optional<attn_problem> known_;
};

TEST(ReduceFailure, FindsACaseThatFailsByItselfThoughCallsHangTogether) {
  CachingTarget target;
  const Property& exact_scale = *find_property("exact_scale");
  Case c;
  c.problem.seq_q = c.problem.seq_k = 20;
  c.problem.dim_qk = c.problem.dim_v = 16;
  c.q.kind = c.k.kind = c.v.kind = FillKind::kGaussian;
  const Verdict verdict = judge(c, exact_scale, target, executor());
  ASSERT_EQ(verdict.outcome, Outcome::kFail);
  const Reduction r = reduce_failure(c, verdict, exact_scale, target, executor(), {.seconds = 60});
  EXPECT_LE(r.minimal.problem.seq_k, 2) << describe(r.minimal);
  target.renew();
  EXPECT_EQ(judge(r.minimal, *find_property(r.verdict.property), target, executor()).kind, r.verdict.kind)
      << describe(r.minimal) << " by " << r.verdict.property;
}

CheckResult check_20(Target& target) {
  CheckOptions options;
  options.cases = 20;
  options.properties = {find_property("reference")};
  Shared shared;
  return run_shard(0, target, executor(), options, shared);
}

TEST(Check, ReportsAHang) {
  WatchedTarget target([](const attn_problem& p, Watch) { return p.seq_k > 0; });
  const CheckResult result = check_20(target);
  ASSERT_EQ(result.failures.size(), 1u);
  EXPECT_EQ(result.failures[0].verdict.kind, Kind::kHang);
  EXPECT_GE(target.full_runs, 1);
  EXPECT_EQ(target.brief_runs, 0) << "a reported hang has used up the full watch";
}

TEST(Check, IsPatientWithASlowKernel) {
  WatchedTarget target(
      [](const attn_problem& p, Watch watch) { return watch == Watch::kBrief && p.seq_k > 0; });
  const CheckResult result = check_20(target);
  EXPECT_TRUE(result.failures.empty());
  EXPECT_EQ(result.cases(), 20u);
  EXPECT_GE(target.full_runs, 10);
}

// Plans tiles of an absurd size.
class AbsurdTarget : public FakeTarget {
 public:
  explicit AbsurdTarget(int64_t tile_k) : tile_k_(tile_k) {}
  PlanReply plan(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) override {
    PlanReply reply = FakeTarget::plan(problem, tensors, env);
    reply.plan.tile_k = tile_k_;
    return reply;
  }

 private:
  int64_t tile_k_;
};

TEST(Check, ReportsAnAbsurdPlanAndDrawsNoCaseForIt) {
  for (int64_t tile_k : {int64_t{0}, (int64_t{1} << 20) + 1, int64_t{1} << 40, INT64_MAX}) {
    AbsurdTarget target(tile_k);
    const CheckResult result = check_20(target);
    ASSERT_EQ(result.failures.size(), 1u) << tile_k;
    EXPECT_EQ(result.failures[0].verdict.kind, Kind::kBadPlan);
    EXPECT_NE(result.failures[0].verdict.message.find("the plan makes no sense: tile_k is"), std::string::npos);
  }
  AbsurdTarget large(1 << 20);  // legal, if large: cases are drawn
  EXPECT_EQ(check_20(large).cases(), 20u);
}

}  // namespace
}  // namespace attnfuzz
