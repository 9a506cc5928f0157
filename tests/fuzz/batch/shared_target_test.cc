// Tests threads that share a target: each uses it only in its turn.
#include "fuzz/batch/shared_target.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <functional>
#include <latch>
#include <mutex>
#include <set>
#include <thread>

#include "fuzz/batch/batch_pipeline.h"
#include "fuzz/check/check.h"
#include "properties/draw/draw.h"
#include "properties/judge/trial.h"
#include "tests/fuzz/batch/fake_batch_target.h"
#include "tests/fuzz/batch/oracle_target.h"
#include "tests/properties/support/random_case.h"

namespace attnfuzz {
namespace {

TEST(Turns, OneThreadAtATimeHasTheTurn) {
  Turns turns;
  std::atomic<int> inside = 0, most = 0;
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n)
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        const Turn turn = turns.take();
        EXPECT_TRUE(turns.mine());
        most = std::max(most.load(), ++inside);
        --inside;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  EXPECT_FALSE(turns.mine());
}

TEST(Turns, ThreadsGetTheTurnInTheOrderTheyAsk) {
  Turns turns;
  std::vector<int> order;
  std::vector<std::thread> threads;
  {
    const Turn mine = turns.take();
    for (int n = 0; n < 4; ++n) {
      threads.emplace_back([&, n] {
        const Turn turn = turns.take();
        order.push_back(n);
      });
      while (turns.waiting() <= static_cast<uint64_t>(n)) std::this_thread::yield();
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
}

TEST(Turns, AThreadDoesNotWaitForItself) {
  Turns turns;
  const Turn turn = turns.take();
  EXPECT_THROW((void)turns.take(), std::logic_error);
}

TEST(SharedTarget, AShareIsUsedOnlyInItsTurn) {
  SharedTarget shared(std::make_unique<BothWays>(Flaw::kNone));
  const std::unique_ptr<Target> share = shared.share();
  auto& batches = dynamic_cast<BatchTarget&>(*share);
  EXPECT_EQ(share->info().name, FakeTarget().info().name);
  EXPECT_THROW(share->arena(), std::logic_error);
  EXPECT_THROW(share->memory({}), std::logic_error);
  EXPECT_THROW(share->renew(), std::logic_error);
  EXPECT_THROW(batches.readback(), std::logic_error);
  EXPECT_THROW(batches.run({}, {}), std::logic_error);
  {
    const Turn turn = share->turn();
    share->arena();
    EXPECT_EQ(batches.why_no_batch(), "");
    const std::unique_ptr<Target> other = shared.share();
    std::thread([&] { EXPECT_THROW(other->arena(), std::logic_error); }).join();
  }
  const Verdict v = judge(Case{}, *find_property("reference"), *share, documented());
  EXPECT_EQ(v.outcome, Outcome::kPass) << v.message;
}

TEST(SharedTarget, ATargetWithoutBatchesIsRefused) {
  EXPECT_THROW(SharedTarget(std::make_unique<FakeTarget>()), std::runtime_error);
}

std::vector<BatchCase> cases_of(uint64_t first, size_t count, const KernelInfo& kernel) {
  GeneratorConfig config;
  config.work = 20'000;
  std::vector<BatchCase> cases;
  for (uint64_t n = first; cases.size() < count; ++n) {
    Case c = draw(config, 5, n);
    const Property* property = properties()[n % properties().size()];
    std::string why;
    if (illegal(c) || !of_its_operation(*property, kernel) || !property->adapt(c, kernel, &why) || illegal(c)) continue;
    cases.push_back({c, property});
  }
  return cases;
}

TEST(OwnWorkers, AreLentToOneThreadAtATimeAndOpenedWhenNeeded) {
  std::atomic<int> opened = 0, lent = 0, most = 0;
  OwnWorkers own(
      [&] {
        ++opened;
        return std::make_unique<FakeTarget>();
      },
      2);
  EXPECT_EQ(opened, 0);
  { const OwnWorkers::Lent one = own.lend(); }
  { const OwnWorkers::Lent again = own.lend(); }
  EXPECT_EQ(opened, 1);
  std::vector<std::thread> threads;
  for (int n = 0; n < 5; ++n)
    threads.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {
        const OwnWorkers::Lent target = own.lend();
        most = std::max(most.load(), ++lent);
        EXPECT_EQ(target->info().name, FakeTarget().info().name);
        --lent;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, 2);
  EXPECT_LE(opened, 2);
}

TEST(OwnWorkers, AWorkerThatCannotBeOpenedIsTriedAgain) {
  int tries = 0;
  OwnWorkers own(
      [&]() -> std::unique_ptr<Target> {
        if (++tries == 1) throw std::runtime_error("no memory");
        return std::make_unique<FakeTarget>();
      },
      1);
  EXPECT_THROW(own.lend(), std::runtime_error);
  EXPECT_EQ(own.lend()->info().name, FakeTarget().info().name);
}

// The property `contract` asks plan() hundreds of questions a case. They do not hold up the batches of the shared worker.
TEST(BatchJudge, AsksForPlansOfTheContractOnAWorkerOfItsOwn) {
  class Counted final : public FakeTarget {
   public:
    explicit Counted(int& plans) : plans_(plans) {}
    PlanReply plan(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) override {
      ++plans_;
      return FakeTarget::plan(problem, tensors, env);
    }

   private:
    int& plans_;
  };
  const auto judged = [](OwnWorkers* own, FakeTarget& target) {
    FakeBatchTarget device(target);
    const Calibration calibration = documented();
    BatchJudge batch_judge(device, target, calibration, 1, own);
    std::vector<BatchCase> asked = {{random_case(4), find_property("contract")}};
    return batch_judge.judge(asked)[0].outcome;
  };
  int shared_plans = 0, own_plans = 0, alone_plans = 0;
  Counted shared(shared_plans), alone(alone_plans);
  OwnWorkers own([&] { return std::make_unique<Counted>(own_plans); }, 1);
  EXPECT_EQ(judged(&own, shared), Outcome::kPass);
  EXPECT_EQ(judged(nullptr, alone), Outcome::kPass);
  EXPECT_GT(own_plans, 20);
  EXPECT_LT(shared_plans, 5) << "the batch's own plans";
  EXPECT_GT(alone_plans, 20) << "without workers of their own the shared one is asked";
}

// Cases that are judged by a trial do not use the shared target, and have the same verdicts.
TEST(BatchPipeline, CasesThatNoBatchJudgesGoToWorkersOfTheirOwn) {
  class OnlyBatches final : public BothWays {
   public:
    using BothWays::run;
    OnlyBatches() : BothWays(Flaw::kLseBase) {}
    std::string run(std::span<const batch::Call> calls, std::span<batch::Result> results) override {
      in_batch_ = true;
      std::string why = BothWays::run(calls, results);
      in_batch_ = false;
      return why;
    }
    RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
                 const attn_env& env, int stream) override {
      EXPECT_TRUE(in_batch_) << "a case by itself on the shared worker";
      return BothWays::run(stage, problem, tensors, plan, env, stream);
    }

   private:
    bool in_batch_ = false;
  };
  SharedTarget shared(std::make_unique<OnlyBatches>());
  const Calibration calibration = documented();
  OwnWorkers own([] { return std::make_unique<FakeTarget>(Flaw::kLseBase); }, 2);
  BatchPipeline pipeline(shared, calibration, 1, 3, &own);
  FakeTarget alone(Flaw::kLseBase);
  std::vector<std::vector<BatchCase>> batches;
  for (uint64_t n = 0; n < 4; ++n) pipeline.add(batches.emplace_back(cases_of(100 * n, 8, alone.info())));
  for (const std::vector<BatchCase>& asked : batches) {
    const std::vector<Verdict> verdicts = pipeline.next();
    for (size_t n = 0; n < asked.size(); ++n)
      EXPECT_EQ(verdicts[n].outcome, judge(asked[n].c, *asked[n].property, alone, calibration).outcome);
  }
  EXPECT_GT(pipeline.use().doubted, 0u);
}

TEST(BatchPipeline, VerdictsComeInOrderAndAreThoseOfOneByOne) {
  for (const Flaw flaw : {Flaw::kNone, Flaw::kLseBase}) {
    SharedTarget shared(std::make_unique<BothWays>(flaw));
    const Calibration calibration = documented();
    FakeTarget alone(flaw);
    BatchPipeline pipeline(shared, calibration, 1, 3);
    std::vector<std::vector<BatchCase>> batches;
    for (uint64_t n = 0; n < 6; ++n) batches.push_back(cases_of(100 * n, 8, alone.info()));
    size_t taken = 0;
    const auto take = [&] {
      const std::vector<Verdict> verdicts = pipeline.next();
      const std::vector<BatchCase>& asked = batches[taken++];
      ASSERT_EQ(verdicts.size(), asked.size());
      for (size_t n = 0; n < asked.size(); ++n) {
        const Verdict v = judge(asked[n].c, *asked[n].property, alone, calibration);
        EXPECT_EQ(verdicts[n].outcome, v.outcome) << asked[n].property->name << ": " << v.message;
        EXPECT_EQ(verdicts[n].kind, v.kind) << asked[n].property->name;
        EXPECT_EQ(verdicts[n].property, v.property);
      }
    };
    for (const std::vector<BatchCase>& batch : batches) {
      pipeline.add(batch);
      if (pipeline.full()) take();
    }
    while (pipeline.size() > 0) take();
    EXPECT_EQ(taken, batches.size());
    EXPECT_GT(pipeline.use().cleared + pipeline.use().doubted, 24u);
  }
}

TEST(BatchPipeline, WhatItsJudgeThrowsIsThrown) {
  class Dying final : public BothWays {
   public:
    Dying() : BothWays(Flaw::kNone) {}
    std::string plan(std::span<const batch::Call>, std::span<batch::Result>) override {
      throw std::runtime_error("no new worker");
    }
  };
  SharedTarget shared(std::make_unique<Dying>());
  const Calibration calibration = documented();
  BatchPipeline pipeline(shared, calibration, 1, 2);
  pipeline.add(cases_of(0, 4, FakeTarget().info()));
  pipeline.add(cases_of(9, 4, FakeTarget().info()));
  EXPECT_THROW(pipeline.next(), std::runtime_error);
}

CheckResult checked(const std::function<std::unique_ptr<Target>()>& open, uint32_t batch, int jobs, int workers) {
  CheckOptions options;
  options.cases = 90;
  options.jobs = jobs;
  options.workers = workers;
  options.batch = batch;
  options.work = 20'000;
  options.keep_going = true;
  options.refused = Refused{};
  options.properties.assign(properties().begin(), properties().end());
  const KernelInfo kernel = open()->info();
  std::erase_if(options.properties, [&](const Property* p) { return !of_its_operation(*p, kernel); });
  return check([&](std::string*) { return open(); }, documented(), options, nullptr);
}

// Checks that a check in batches has the same result as one without.
void expect_equal_checks(const std::function<std::unique_ptr<Target>()>& open, uint64_t least_cleared) {
  const CheckResult alone = checked(open, 0, 1, 1), batches = checked(open, 8, 5, 2);
  EXPECT_EQ(batches.digest.hex(), alone.digest.hex());
  EXPECT_EQ(batches.cases(), alone.cases());
  ASSERT_EQ(batches.failures.size(), alone.failures.size());
  for (size_t n = 0; n < alone.failures.size(); ++n) {
    EXPECT_EQ(batches.failures[n].index, alone.failures[n].index);
    EXPECT_EQ(batches.failures[n].verdict.kind, alone.failures[n].verdict.kind);
  }
  for (const auto& [name, n] : alone.properties) {
    EXPECT_EQ(batches.properties.at(name).cases, n.cases) << name;
    EXPECT_EQ(batches.properties.at(name).failed, n.failed) << name;
  }
  EXPECT_GT(batches.batch.cleared, least_cleared);
  EXPECT_EQ(alone.batch.cleared, 0u);
}

TEST(CheckInBatches, ThreadsOfTwoProcessesFindWhatOneJobFindsOneByOne) {
  for (const Flaw flaw : {Flaw::kNone, Flaw::kLengthIgnored})
    expect_equal_checks([flaw] { return std::make_unique<BothWays>(flaw); }, 40);
}

// Two kernels that take every kind of forward problem: a right one, and one that ignores ALiBi slopes.
TEST(CheckInBatches, FindWhatOneByOneFindsWhateverTheKernelKnows) {
  const auto no_slopes = [](attn_problem& p, attn_tensors&) { p.has_alibi = 0, p.features &= ~ATTN_FEATURE_ALIBI; };
  expect_equal_checks([] { return std::make_unique<InBothWays<OracleTarget>>(); }, 40);
  expect_equal_checks([&] { return std::make_unique<InBothWays<OracleTarget>>(no_slopes); }, 30);
}

TEST(CheckInBatches, FindForMergesWhatOneByOneFinds) {
  const auto swapped = [](attn_problem&, attn_tensors& t) { std::swap(t.lse1, t.lse2); };
  expect_equal_checks([] { return std::make_unique<InBothWays<OracleTarget>>(nullptr, OracleTarget::kMerge); }, 40);
  expect_equal_checks([&] { return std::make_unique<InBothWays<OracleTarget>>(swapped, OracleTarget::kMerge); }, 10);
}

std::mutex at_a_case_mutex;
std::set<std::thread::id> at_a_case;  // threads that have drawn a case

bool note_thread(Case&, const KernelInfo&, std::string*) {
  const std::lock_guard lock(at_a_case_mutex);
  at_a_case.insert(std::this_thread::get_id());
  return true;
}

// Dies in a batch once all three threads have drawn a case.
class DeadlyBatch final : public BothWays {
 public:
  DeadlyBatch() : BothWays(Flaw::kNone) {}
  std::string run(std::span<const batch::Call>, std::span<batch::Result>) override {
    for (size_t count = 0; count < 3;) {
      std::this_thread::yield();
      const std::lock_guard lock(at_a_case_mutex);
      count = at_a_case.size();
    }
    raise(SIGKILL);
    return "";
  }
};

TEST(CheckInBatches, CasesInFlightOfAProcessThatDiesAreNamed) {
  Property reference = *find_property("reference");
  reference.adapt = note_thread;
  CheckOptions options;
  options.cases = 90;
  options.jobs = 3;
  options.workers = 1;
  options.batch = 8;
  options.work = 20'000;
  options.refused = Refused{};
  options.properties = {&reference};
  const CheckResult result =
      check([](std::string*) { return std::make_unique<DeadlyBatch>(); }, documented(), options, nullptr);
  ASSERT_EQ(result.failures.size(), 1u);
  EXPECT_TRUE(result.failures[0].fatal);
  EXPECT_EQ(result.failures[0].index, 0u);
  EXPECT_EQ(result.died_with, (std::vector<uint64_t>{1, 2}));
}

}  // namespace
}  // namespace attnfuzz
