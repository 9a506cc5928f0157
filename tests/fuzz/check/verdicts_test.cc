// Tests how a check counts failures that come only once, that kill their job, or that have several kinds, and
// cases that neither fail nor pass.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <functional>
#include <set>
#include <stdexcept>

#include "fuzz/check/check.h"
#include "fuzz/check/counts/kernel_path.h"
#include "fuzz/check/failure/vote.h"
#include "fuzz/check/shard.h"
#include "properties/case/features/feature.h"
#include "properties/draw/generator.h"
#include "properties/explain/fault_class.h"
#include "properties/judge/execution.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

// Right, but `meddle` may change each reply. It gets the number of earlier calls.
class MeddledTarget : public FakeTarget {
 public:
  using Meddle = std::function<void(int call, const attn_problem&, RunReply&)>;
  explicit MeddledTarget(Meddle meddle) : meddle_(std::move(meddle)) {}
  RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    RunReply reply = FakeTarget::run(stage, problem, tensors, plan, env, stream);
    meddle_(calls_++, problem, reply);
    return reply;
  }

 private:
  const Meddle meddle_;
  int calls_ = 0;
};

void crash(RunReply& reply) {
  reply.status = ATTN_FAULT;
  reply.crash = "SIGSEGV in run(), at here+0x12";
}

void hang(RunReply& reply) {
  reply.status = ATTN_FAULT;
  reply.timed_out = true;
}

CheckOptions few(uint64_t cases) {
  CheckOptions options;
  options.cases = cases;
  options.properties = {find_property("reference")};
  return options;
}

CheckResult shard(Target& target, const CheckOptions& options) {
  Shared shared;
  return run_shard(0, target, executor(), options, shared);
}

// Stores O 40 ulps too far from 0. That is within the bound of its plan, which declares P in 8 bits.
class LeaningTarget : public FakeTarget {
 public:
  PlanReply plan(const attn_problem& p, const attn_tensors& tensors, const attn_env& env) override {
    PlanReply reply = FakeTarget::plan(p, tensors, env);
    reply.plan.p_format = ATTN_FORMAT_E4M3;
    reply.plan.p_order = ATTN_P_UNNORMALISED;
    return reply;
  }
  RunReply run(Stage stage, const attn_problem& p, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    RunReply reply = FakeTarget::run(stage, p, tensors, plan, env, stream);
    for (int64_t row = 0; row < p.seq_q; ++row)
      for (int64_t d = 0; d < p.dim_v; ++d)
        static_cast<uint16_t*>(tensors.o.data)[row * tensors.o.stride[2] + d * tensors.o.stride[3]] += 40;
    return reply;
  }
};

TEST(Verdicts, UnlikelyErrorsWithinTheirBoundsPassWithAWarning) {
  Case c;
  c.problem.seq_q = 256;
  c.problem.seq_k = 1000;
  c.problem.dim_qk = c.problem.dim_v = 16;
  c.problem.scale = 0.125f;
  c.q.kind = c.k.kind = FillKind::kGaussian;
  c.v.kind = FillKind::kUniform;
  LeaningTarget leaning;
  const Verdict v = judge(c, *find_property("reference"), leaning, executor());
  EXPECT_EQ(v.outcome, Outcome::kPass) << v.message;
  ASSERT_TRUE(v.warning);
  EXPECT_EQ(v.warning->sign, "size") << v.warning->message;
  EXPECT_TRUE(v.warning->message.starts_with("errors of O are")) << v.warning->message;
  EXPECT_TRUE(v.warning->message.find("; constant ratio") != std::string::npos) << v.warning->message;
  EXPECT_EQ(v.warning->c, c);
  FakeTarget right;
  EXPECT_FALSE(judge(c, *find_property("reference"), right, executor()).warning);

  Statistics counted;
  counted.add(c, v);
  EXPECT_EQ(counted.warning_counts.at("size"), 1u);
  CheckResult one, two;
  one.add(WarnedCase{7, *v.warning});
  two.add(WarnedCase{3, *v.warning});
  one.merge(deserialize(serialize(two)));
  ASSERT_EQ(one.warnings.size(), 1u);
  EXPECT_EQ(one.warnings[0].index, 3u);
  EXPECT_EQ(one.warnings[0].warning.c, c);
}

TEST(Verdicts, CasesAreCountedByHowTheirRelationCompared) {
  Verdict v;
  v.property = "alone";
  v.by_bits = true;
  CheckResult one, two;
  one.add(Case(), v);
  v.by_bounds = "path differs";
  two.add(Case(), v);
  one.merge(deserialize(serialize(two)));
  EXPECT_EQ(one.properties.at("alone").by_bits, 1u) << "a case with both kinds counts as compared within bounds";
  EXPECT_EQ(one.properties.at("alone").by_bounds, 1u);
  EXPECT_EQ(one.by_bounds.at("alone: path differs"), 1u);
}

TEST(Verdicts, AHangThatComesOnceIsAFailure) {
  MeddledTarget target([](int call, const attn_problem&, RunReply& reply) {
    if (call == 7) hang(reply);
  });
  const CheckResult result = shard(target, few(40));
  ASSERT_EQ(result.failures.size(), 1u);
  const Failure& failure = result.failures[0];
  EXPECT_EQ(failure.verdict.kind, Kind::kHang);
  EXPECT_FALSE(confirm(failure.c, failure.verdict, *failure.property, target, executor()));
}

TEST(Verdicts, ASlowCallIsNoHangAndIsNotReduced) {
  int runs = 0;
  MeddledTarget target([&](int, const attn_problem&, RunReply& reply) {
    ++runs;
    hang(reply);
    reply.slow = Slow{37, 512, 12};
  });
  const CheckResult result = shard(target, few(40));
  ASSERT_EQ(result.failures.size(), 1u);
  const Failure& failure = result.failures[0];
  EXPECT_EQ(failure.verdict.kind, Kind::kSlow);
  EXPECT_TRUE(confirm(failure.c, failure.verdict, *failure.property, target, executor()));
  EXPECT_FALSE(more_to_see(target.info(), failure.verdict));
  EXPECT_EQ(guess_fault({failure.c, failure.verdict, {}, "plain", {}}).line(), "");
  runs = 0;
  const Reduction reduction =
      reduce_failure(failure.c, failure.verdict, *failure.property, target, executor(), {});
  EXPECT_EQ(runs, 0);
  EXPECT_TRUE(reduction.complete);
  EXPECT_EQ(reduction.minimal, failure.c);
  EXPECT_EQ(reduction.verdict.message, failure.verdict.message);
}

TEST(Verdicts, ATruncatedResultIsRefused) {
  FakeTarget right;
  const std::string whole = serialize(shard(right, few(20)));
  EXPECT_NO_THROW(deserialize(whole));
  for (size_t size = 0; size < whole.size(); size += size < 64 ? 1 : whole.size() / 200 + 1)
    EXPECT_THROW(deserialize(whole.substr(0, size)), std::runtime_error) << size << " of " << whole.size();
  EXPECT_THROW(deserialize(whole + "x"), std::runtime_error);
}

TEST(Verdicts, TheFirstVerdictReachesTheParentUnchanged) {
  MeddledTarget target([](int call, const attn_problem&, RunReply& reply) {
    if (call == 7) crash(reply);
  });
  const CheckResult result = deserialize(serialize(shard(target, few(40))));
  ASSERT_EQ(result.failures.size(), 1u);
  const Verdict& v = result.failures[0].verdict;
  EXPECT_EQ(v.outcome, Outcome::kFail);
  EXPECT_EQ(v.kind, Kind::kCrash);
  EXPECT_EQ(v.property, "reference");
  EXPECT_NE(v.message.find("SIGSEGV in run(), at here+0x12"), std::string::npos) << v.message;
  EXPECT_EQ(v.plan.tile_k, FakeTarget::kTileK);
  EXPECT_TRUE(v.failing && *v.failing == result.failures[0].c);

  MeddledTarget reports([](int, const attn_problem&, RunReply& reply) {
    reply.status = ATTN_FAULT;
    reply.fault = Fault{ATTN_REPORT_RACE, {1, 2, 3}, {4, 5, 6}, "two threads", "some.cu", 12};
  });
  const CheckResult faulty = deserialize(serialize(shard(reports, few(40))));
  ASSERT_EQ(faulty.failures.size(), 1u);
  ASSERT_TRUE(faulty.failures[0].verdict.fault);
  EXPECT_EQ(faulty.failures[0].verdict.fault->thread[2], 6u);
  EXPECT_EQ(faulty.failures[0].verdict.fault->file, "some.cu");

  FakeTarget wrong(Flaw::kLseBase);
  const CheckResult numbers = shard(wrong, few(200)), same = deserialize(serialize(numbers));
  ASSERT_EQ(same.failures.size(), 1u);
  const Where &a = *numbers.failures[0].verdict.where, &b = *same.failures[0].verdict.where;
  EXPECT_EQ(b.tensor, TensorId::kLse);
  EXPECT_EQ(a.q, b.q);
  EXPECT_EQ(a.bound, b.bound);
  EXPECT_EQ(a.bad, b.bad);
}

TEST(Verdicts, AFailureThatComesAgainIsConfirmed) {
  FakeTarget target(Flaw::kLseBase);
  const CheckResult result = shard(target, few(200));
  ASSERT_EQ(result.failures.size(), 1u);
  const Failure& failure = result.failures[0];
  const auto again = confirm(failure.c, failure.verdict, *failure.property, target, executor());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->message, failure.verdict.message);
}

// A kernel that kills its job's process in a causal case, from its call `first` on.
CheckResult deadly(int jobs, bool keep_going, int first = 0) {
  const OpenTarget open = [first](std::string*) {
    return std::make_unique<MeddledTarget>([first](int call, const attn_problem& p, RunReply&) {
      if (p.causal && call >= first) raise(SIGKILL);
    });
  };
  CheckOptions options = few(40);
  options.jobs = jobs;
  options.keep_going = keep_going;
  return check(open, executor(), options, nullptr);
}

TEST(Verdicts, AJobThatDiesIsAFailureOfItsCase) {
  const CheckResult alone = deadly(1, false);
  ASSERT_EQ(alone.failures.size(), 1u);
  const Failure& failure = alone.failures[0];
  EXPECT_TRUE(failure.fatal);
  EXPECT_TRUE(failure.c.problem.causal);
  EXPECT_EQ(failure.verdict.kind, Kind::kCrash);
  EXPECT_NE(failure.verdict.message.find("died (SIGKILL)"), std::string::npos) << failure.verdict.message;
  EXPECT_EQ(alone.properties.at("reference").failed, 1u);
  const CheckResult several = deadly(3, false);
  ASSERT_EQ(several.failures.size(), 1u);
  EXPECT_EQ(several.failures[0].index, failure.index);
}

TEST(Verdicts, CasesLostWithAProcessAreNamedAndCounted) {
  const CheckResult one = deadly(1, true, 5);
  ASSERT_EQ(one.failures.size(), 1u);
  EXPECT_TRUE(one.died_with.empty());
  EXPECT_EQ(one.uncounted, one.failures[0].index);
  EXPECT_GT(one.uncounted, 0u);
  EXPECT_EQ(one.never_run, 40 - one.uncounted - 1);
  EXPECT_GT(one.never_run, 0u);
  EXPECT_EQ(deadly(1, false, 5).never_run, 0u) << "the failure ended the check";
  const OpenTarget open = [](std::string*) { return std::make_unique<FakeTarget>(); };
  EXPECT_EQ(check(open, executor(), few(40), nullptr).uncounted, 0u);
}

TEST(Verdicts, KeepGoingFindsTheFirstOfEachKind) {
  const OpenTarget open = [](std::string*) {
    return std::make_unique<MeddledTarget>([](int, const attn_problem& p, RunReply& reply) {
      if (p.causal) crash(reply);
      if (p.softcap > 0) hang(reply);
    });
  };
  CheckOptions options = few(200);
  const CheckResult first = check(open, executor(), options, nullptr);
  ASSERT_EQ(first.failures.size(), 1u);
  options.keep_going = true;
  const CheckResult alone = check(open, executor(), options, nullptr);
  options.jobs = 3;
  const CheckResult several = check(open, executor(), options, nullptr);
  ASSERT_EQ(alone.failures.size(), 2u);
  ASSERT_EQ(several.failures.size(), 2u);
  EXPECT_EQ(alone.failures[0].index, first.failures[0].index);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(alone.failures[i].index, several.failures[i].index);
    EXPECT_EQ(alone.failures[i].verdict.kind, several.failures[i].verdict.kind);
  }
  EXPECT_NE(alone.failures[0].verdict.kind, alone.failures[1].verdict.kind);
  EXPECT_EQ(alone.cases(), 200u);
}

TEST(Verdicts, AnInterruptedCheckReportsItsResults) {
  const OpenTarget open = [](std::string*) { return std::make_unique<FakeTarget>(); };
  CheckOptions options = few(uint64_t{1} << 40);
  options.interrupted = [] { return true; };
  const CheckResult result = check(open, executor(), options, nullptr);
  EXPECT_TRUE(result.interrupted);
  EXPECT_TRUE(result.failures.empty());
  EXPECT_TRUE(result.given_up.empty());
}

TEST(NotJudged, IsNoPass) {
  CheckResult result;
  EXPECT_EQ(not_judged(result, "k", {}, true).size(), 1u);
  result.rows = 1000;
  Classification& drawn = result.features;
  drawn.cases = 1000;
  drawn.counts = {{"kv tiles >= 3", 400}, {"gqa", 200}, {"dead rows", 170}};
  EXPECT_TRUE(not_judged(result, "k", {}, true).empty());
  drawn.uninformative = 90;
  const std::vector<std::string> why = not_judged(result, "k", {}, true);
  ASSERT_EQ(why.size(), 2u);
  EXPECT_NE(why[0].find("not judged: 9.0 %"), std::string::npos) << why[0];
  EXPECT_TRUE(not_judged(result, "k", {}, false).empty()) << "some properties say nothing of many cases";
  drawn.uninformative = 300;
  drawn.rejected = 300;
  EXPECT_EQ(not_judged(result, "k", {}, false).size(), 2u);
  drawn.uninformative = drawn.rejected = 0;
  drawn.counts["gqa"] = 10;
  EXPECT_FALSE(not_judged(result, "k", {}, true).empty());
  Refused grouped;
  for (const Feature* feature : all_features()) {
    for (const Refusal& refusal : feature->refusals) {
      if (std::string_view(refusal.name) == "grouped heads") grouped.those.push_back(&refusal);
    }
  }
  EXPECT_TRUE(not_judged(result, "k", grouped, true).empty()) << "the kernel does not take grouped heads, and declares that";
}

TEST(Aims, IncludeTheUsualTileIfThePlanHasAnUnusualOne) {
  class SmallTiles : public FakeTarget {
   public:
    int64_t tile = 4;
    PlanReply plan(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) override {
      PlanReply reply = FakeTarget::plan(problem, tensors, env);
      reply.plan.tile_k = tile;
      return reply;
    }
  };
  SmallTiles small;
  const GeneratorConfig config = config_for(small, few(1));
  EXPECT_EQ(config.tiles_k, (std::vector<int64_t>{4, 64}));
  EXPECT_EQ(config.tiles_q, (std::vector<int64_t>{16}));
  // These tiles are rare in kernels, so the usual tile is added.
  for (const int64_t tile : {1, 997, 4096}) {
    small.tile = tile;
    EXPECT_EQ(config_for(small, few(1)).tiles_k, (std::vector<int64_t>{tile, 64}));
  }
  for (const int64_t tile : {16, 48, 512}) {
    small.tile = tile;
    EXPECT_EQ(config_for(small, few(1)).tiles_k, (std::vector<int64_t>{tile}));
  }
}

class OnAGpu : public FakeTarget {
 public:
  explicit OnAGpu(uint64_t features = 0) : info_(FakeTarget::info()) {
    info_.backend = ATTN_CUDA;
    info_.features |= features;
  }
  const KernelInfo& info() const override { return info_; }

 private:
  KernelInfo info_;
};

// A kernel without a forward pass has no long rows, but its cases are judged in batches, too.
TEST(Aims, OfBatchesAreFewFarRowsForEachKernel) {
  CheckOptions batches = few(1), short_rows = few(1);
  batches.batch = short_rows.batch = 64;
  short_rows.device_work = 0;
  FakeTarget cpu;
  EXPECT_FALSE(config_for(cpu, batches).in_batches);
  for (const uint64_t features : {uint64_t{0}, ATTN_FEATURE_SELECTED | ATTN_FEATURE_NO_FORWARD}) {
    OnAGpu gpu(features);
    const GeneratorConfig config = config_for(gpu, batches);
    EXPECT_TRUE(config.in_batches);
    EXPECT_EQ(config.device_work, features == 0 ? kDeviceWork : 0);
    EXPECT_FALSE(config_for(gpu, few(1)).in_batches);
    EXPECT_FALSE(config_for(gpu, short_rows).in_batches) << "its cases are those of a check without batches";
  }
}

TEST(Aims, GiveACaseOnAGpuMoreWorkUnlessItIsGiven) {
  OnAGpu gpu;
  FakeTarget cpu;
  CheckOptions given = few(1);
  given.work = GeneratorConfig{}.work;
  EXPECT_EQ(config_for(gpu, few(1)).work, kGpuWork);
  EXPECT_EQ(config_for(gpu, given).work, GeneratorConfig{}.work) << "as given, though a CPU has it by default";
  EXPECT_EQ(config_for(cpu, few(1)).work, GeneratorConfig{}.work);
}

std::string path(const char* path) {
  attn_plan plan = {};
  std::strncpy(plan.path, path, sizeof plan.path);  // without a terminator if it fills the field
  return path_name(plan);
}

TEST(Paths, HaveNamesWithoutSizes) {
  EXPECT_EQ(path("64x64 d128 packed split wgmma"), "packed split wgmma");
  EXPECT_EQ(path("64x64 d64 elementwise(qk v)"), "elementwise");
  EXPECT_EQ(path("64x64"), "64x64");
  EXPECT_EQ(path(""), "");
  EXPECT_EQ(path(std::string(80, 'x').c_str()), std::string(sizeof attn_plan::path, 'x'));
}

// Its fast path is rarely drawn: it needs the kernel's own choice of variant, and no bias.
class TwoWays : public FakeTarget {
 public:
  PlanReply plan(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) override {
    PlanReply reply = FakeTarget::plan(problem, tensors, env);
    const bool fast = env.variant == 0 && problem.bias_dtype == ATTN_NONE;
    std::strcpy(reply.plan.path, fast ? "16x16 fast" : "16x16 general");
    return reply;
  }
};

// Only packed calls take its fast path. Of fa1's kind, one case in thirty is packed.
class PackedWay : public FakeTarget {
 public:
  PackedWay() { take_features(ATTN_FEATURE_RAGGED); }
  PlanReply plan(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) override {
    ++plans;
    PlanReply reply = FakeTarget::plan(problem, tensors, env);
    std::strcpy(reply.plan.path, (problem.features & ATTN_FEATURE_RAGGED) != 0 ? "ragged" : "dense");
    const PlanQuestion question = {problem, tensors, env};
    asked.emplace(reinterpret_cast<const char*>(&question), sizeof question);
    return reply;
  }
  int64_t plans = 0;
  std::set<std::string> asked;
};

TEST(Paths, APropertyThatCannotTakeThePathLeavesItsTurnSoon) {
  PackedWay target;
  const GeneratorConfig config = config_for(target, few(1));
  std::string why;
  constexpr int kCases = 20;
  for (int n = 0; n < kCases; ++n) {
    const auto drawn = draw_on_path(config, 1, n, {find_property("softcap"), find_property("reference")}, "ragged",
                                    1000, target, &why);
    ASSERT_TRUE(drawn) << why;
    EXPECT_EQ(drawn->property, find_property("reference")) << "softcap makes no packed call";
  }
  EXPECT_LT(target.plans, kCases * 1000);
}

// After each run, its path is common for 4,000 plans, some of each draw.
class RareWay : public FakeTarget {
 public:
  PlanReply plan(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) override {
    PlanReply reply = FakeTarget::plan(problem, tensors, env);
    std::strcpy(reply.plan.path, common_ > 0 ? "common" : "rare");
    if (common_ > 0) --common_;
    return reply;
  }
  RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    common_ = 4000;
    return FakeTarget::run(stage, problem, tensors, plan, env, stream);
  }

 private:
  int common_ = 0;
};

TEST(Paths, ARarePathDoesNotEndACheckThatHasMetIt) {
  RareWay target;
  CheckOptions options = few(2);
  options.path = "rare";
  EXPECT_EQ(shard(target, options).paths.at("rare").cases, 2u);
}

// Properties that change only numbers ask for the plan that `reference` asks for.
TEST(Paths, ASearchPutsNoQuestionTwice) {
  PackedWay target;
  const GeneratorConfig config = config_for(target, few(1));
  const std::vector<const Property*> asked = {find_property("softcap"), find_property("scale_value"),
                                              find_property("linear_value"), find_property("reference")};
  std::string why;
  for (int n = 0; n < 10; ++n) {
    target.plans = 0;
    target.asked.clear();
    ASSERT_TRUE(draw_on_path(config, 1, n, asked, "ragged", 1000, target, &why)) << why;
    EXPECT_EQ(target.plans, std::ssize(target.asked));
  }
}

// The search for a path adapts a case once for all variants.
TEST(Paths, NoPropertyLooksAtTheVariant) {
  for (const uint64_t features : {uint64_t{0}, ATTN_FEATURE_RAGGED | ATTN_FEATURE_PAGED | ATTN_FEATURE_KV8}) {
    FakeTarget target;
    target.take_features(features);
    GeneratorConfig config = config_for(target, few(1));
    config.features = features;
    for (uint64_t index = 0; index < 100; ++index) {
      for (const Property* property : all_properties()) {
        Case one = draw(config, 3, index), other = one;
        one.env.variant = 0, other.env.variant = 2;
        std::string why, why_other;
        ASSERT_EQ(adapted(one, *property, target, &why), adapted(other, *property, target, &why_other));
        EXPECT_EQ(why, why_other);
        other.env.variant = one.env.variant;
        ASSERT_EQ(one, other) << property->name << ", case " << index;
      }
    }
  }
}

TEST(Paths, AnIllegalCaseHasNoPlan) {
  FakeTarget target;
  Case c;
  c.problem.seq_k = 256;
  c.layout[static_cast<size_t>(TensorId::kV)].spread = int64_t{1} << 35;
  EXPECT_NE(why_not(plan_alone(c, target)).find("it cannot be run: layout.v"), std::string::npos);
}

TEST(Paths, OfATargetAreAllFound) {
  TwoWays target;
  EXPECT_EQ(paths_through(config_for(target, few(1)), target), (std::set<std::string>{"fast", "general"}));
}

TEST(Paths, ARequestedPathIsDrawn) {
  TwoWays target;
  const CheckResult any = shard(target, few(100));
  EXPECT_GT(any.paths.at("general").cases, 80u);
  EXPECT_GT(any.paths.at("fast").cases, 0u);
  CheckOptions options = few(100);
  options.path = "fast";
  const CheckResult fast = shard(target, options);
  EXPECT_EQ(fast.paths.size(), 1u);
  EXPECT_EQ(fast.paths.at("fast").cases, 100u);
  EXPECT_GT(fast.paths.at("fast").ratios.worst(), 0);
  options.path = "sideways";
  try {
    shard(target, options);
    FAIL() << "no case goes sideways";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("'fast', 'general'"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace attnfuzz
