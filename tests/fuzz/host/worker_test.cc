// Tests what the parent reports if a kernel harms its worker.
#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "fuzz/host/confinement.h"
#include "fuzz/host/variant_plans.h"
#include "fuzz/host/watchdog.h"
#include "fuzz/host/wire.h"
#include "tests/fuzz/fakes/open_fake.h"

namespace attnfuzz {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Worker, RunsAKernelInTheArena) {
  FakeCall call("copy");
  EXPECT_EQ(call.target->info().name, "copy");
  EXPECT_EQ(call.target->info().backend, ATTN_CPU);
  auto* q = static_cast<uint16_t*>(call.tensors.q.data);
  auto* o = static_cast<uint16_t*>(call.tensors.o.data);
  for (int i = 0; i < 32; ++i) q[i] = static_cast<uint16_t>(i + 1);
  const PlanReply plan = call.plan();
  EXPECT_EQ(plan.status, ATTN_OK);
  EXPECT_STREQ(plan.plan.path, "fake");
  const RunReply run = call.run();
  EXPECT_EQ(run.status, ATTN_OK);
  EXPECT_FALSE(run.crash || run.fault || run.timed_out);
  EXPECT_EQ(std::memcmp(q, o, 64), 0);
}

// A tensor with widely spread rows has a range of memory for each row. If they are too many for a request, the
// case is not judged, and the judging process goes on.
TEST(Worker, LeavesACaseWithMoreRangesOfMemoryThanARequestHolds) {
  FakeCall call("copy");
  call.target->memory(std::vector<MemoryRange>(wire::kMaxRanges + 1, {TensorId::kQ, 256, 320}));
  for (const std::optional<std::string>& left : {call.plan().no_memory, call.run().no_memory}) {
    ASSERT_TRUE(left);
    EXPECT_THAT(*left, testing::HasSubstr("65537 ranges of memory"));
  }
  call.target->memory({});
  EXPECT_EQ(call.plan().status, ATTN_OK);
}

TEST(Worker, KeepsItsProcessFromCallToCall) {
  FakeCall call("count");
  for (int i = 1; i <= 5; ++i) {
    EXPECT_EQ(call.run().status, ATTN_OK);
    EXPECT_EQ(*static_cast<int*>(call.tensors.o.data), i);
  }
}

TEST(Worker, PlansInAllVariantsAsInEach) {
  for (const char* kernel : {"variants", "odd-plan", "plan-by-turns", "refuse-by-turns", "no-tiles"}) {
    FakeCall call(kernel);
    auto* together = dynamic_cast<VariantPlans*>(call.target.get());
    ASSERT_TRUE(together);
    const std::vector<PlanReply> replies = together->plans(call.problem, call.tensors, call.env, 2);
    ASSERT_EQ(replies.size(), 3u) << kernel;
    for (call.env.variant = 0; call.env.variant < 3; ++call.env.variant) {
      const PlanReply &one = replies[static_cast<size_t>(call.env.variant)], alone = call.plan();
      EXPECT_EQ(one.status, alone.status) << kernel;
      EXPECT_EQ(one.bad_plan.has_value(), alone.bad_plan.has_value()) << kernel;
      EXPECT_EQ(std::memcmp(&one.plan, &alone.plan, sizeof one.plan), 0) << kernel;
      if (kernel == std::string("variants")) EXPECT_EQ(one.reason, alone.reason);
    }
  }
}

// Then each variant is asked for alone, which tells which one is to blame.
TEST(Worker, GivesNoPlansOfAllVariantsIfOneKillsIt) {
  FakeCall call("variants");
  auto* together = dynamic_cast<VariantPlans*>(call.target.get());
  ASSERT_TRUE(together);
  EXPECT_EQ(together->plans(call.problem, call.tensors, call.env, 3).size(), 0u);
  EXPECT_EQ(together->plans(call.problem, call.tensors, call.env, wire::kMostVariant + 1).size(), 0u);
  EXPECT_EQ(call.plan().status, ATTN_OK);
  call.env.variant = 3;
  EXPECT_TRUE(call.plan().crash);
}

// A worker that is killed while it starts, `times` times.
WorkerOptions killed_at_first(const std::string& folder, int times) {
  WorkerOptions options = fake_options("behaviours", "copy");
  const std::string left = folder + "/left", script = folder + "/worker.sh";
  std::ofstream(left) << times << "\n";
  std::ofstream(script) << "#!/bin/sh\nread n < " << left << "\necho $((n - 1)) > " << left
                        << "\n[ $n -gt 0 ] && kill -9 $$\nexec " << options.worker << " \"$@\"\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  options.worker = script;
  return options;
}

TEST(Worker, ThatIsKilledWhileItStartsIsStartedAgain) {
  const std::string folder = ::testing::TempDir() + "killed_worker." + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  std::string error;
  EXPECT_TRUE(open_target(killed_at_first(folder, 2), &error)) << error;
  EXPECT_FALSE(open_target(killed_at_first(folder, 3), &error));
  EXPECT_THAT(error, HasSubstr("SIGKILL"));
  std::filesystem::remove_all(folder);
}

TEST(Worker, PassesARefusalOn) {
  FakeCall call("refuse");
  const PlanReply plan = call.plan();
  EXPECT_EQ(plan.status, ATTN_UNSUPPORTED);
  EXPECT_EQ(plan.reason, "no such head dimension");
  EXPECT_FALSE(plan.crash);
}

TEST(Worker, CallsPlanTwiceAndReportsDifferentAnswers) {
  for (const auto& [kernel, why] : {std::pair{"refuse-by-turns", "refused the problem and then took it"},
                                    {"plan-by-turns", "answered tile_k 128 and then 64"}}) {
    FakeCall call(kernel);
    for (int i = 0; i < 2; ++i) {
      const PlanReply plan = call.plan();
      ASSERT_TRUE(plan.bad_plan) << kernel;
      EXPECT_EQ(*plan.bad_plan, std::string("asked the same twice, plan() ") + why);
      EXPECT_EQ(plan.status, ATTN_FAULT);
    }
  }
  // The words of a refusal may differ, and the bytes after a path's terminator.
  FakeCall call("reason-by-turns");
  const PlanReply plan = call.plan();
  EXPECT_EQ(plan.status, ATTN_OK) << plan.bad_plan.value_or("");
  call.problem.seq_k = 2000;
  const PlanReply refused = call.plan();
  EXPECT_EQ(refused.status, ATTN_UNSUPPORTED);
  EXPECT_EQ(refused.reason, "refused 3");
}

// A misbehaving kernel, the words of its verdict, and whether it ends the worker.
struct Misbehaviour {
  const char* kernel;
  const char* crash;
};

class Crashing : public ::testing::TestWithParam<Misbehaviour> {};

TEST_P(Crashing, IsNamedAndReplaced) {
  FakeCall call(GetParam().kernel);
  for (int i = 0; i < 2; ++i) {  // the second time on a fresh worker
    const PlanReply plan = call.plan();
    EXPECT_EQ(plan.status, ATTN_OK);
    const RunReply run = call.run();
    ASSERT_TRUE(run.crash) << i;
    EXPECT_THAT(*run.crash, HasSubstr(GetParam().crash));
    EXPECT_EQ(run.status, ATTN_FAULT);
    EXPECT_FALSE(run.timed_out);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Crashing,
    ::testing::Values(Misbehaviour{"null", "SIGSEGV in run(), null pointer (0x0), at behaviours.so+0x"},
                      Misbehaviour{"misaligned", "SIGSEGV in run(), an address that is not aligned as"},
                      Misbehaviour{"exit", "exit status 3 in run()"},
                      Misbehaviour{"kill-parent", "SIGKILL, sent to the worker's parent, in run()"},
                      Misbehaviour{"abort", "SIGABRT in run()\nit printed: terminate called: the heap is gone"},
                      Misbehaviour{"fork-hang", "SIGABRT in run()"},
                      Misbehaviour{"close", "the kernel closed or replaced the worker's descriptors"},
                      Misbehaviour{"scribble", "the kernel wrote over the worker's own memory"},
                      Misbehaviour{"odd-status", "returned the status 1234"}),
    [](const auto& info) {
      std::string name = info.param.kernel;
      std::erase(name, '-');
      return name;
    });

// If host code exits because its launch failed, the executor's report of the failure is kept.
TEST(Worker, ThatExitsAfterAReportHasTheReportsMessage) {
  FakeCall call("report-exit");
  for (int i = 0; i < 2; ++i) {
    const RunReply run = call.run();
    ASSERT_TRUE(run.fault);
    EXPECT_EQ(run.fault->kind, ATTN_REPORT_ASYNC);
    EXPECT_EQ(run.fault->message, "nobody waited for a copy; then exit status 1 in run()");
    EXPECT_TRUE(run.crash);
  }
  FakeCall other("exit");
  EXPECT_FALSE(other.run().fault);
}

TEST(Worker, NamesTheTensorThatWasOverrun) {
  FakeCall call("overrun");
  call.tensors.o.data = call.target->arena().slot_end(TensorId::kO);
  const RunReply past = call.run();
  ASSERT_TRUE(past.crash);
  EXPECT_THAT(*past.crash, StartsWith("SIGSEGV in run(), 1 bytes past the end of the memory of o, at "));
  call.tensors.o.data = call.target->arena().slot(TensorId::kQ) - 8;
  const RunReply before = call.run();
  ASSERT_TRUE(before.crash);
  EXPECT_THAT(*before.crash, HasSubstr("8 bytes before the memory of q"));
  call.tensors.o.data = call.target->arena().slot(TensorId::kO);
  EXPECT_EQ(call.run().status, ATTN_OK);
}

// A campaign groups crashes by their place, so the place must be the same each time.
TEST(Worker, SaysWhereTheKernelDied) {
  FakeCall null("null");
  const std::string site = null.run().site;
  EXPECT_THAT(site, StartsWith("SIGSEGV at behaviours.so+0x"));
  EXPECT_EQ(null.run().site, site) << "in another process";
  FakeCall overrun("overrun");
  overrun.tensors.o.data = overrun.target->arena().slot_end(TensorId::kO);
  EXPECT_THAT(overrun.run().site, StartsWith("SIGSEGV at behaviours.so+0x"));
  EXPECT_NE(overrun.run().site, site);
  // A crash in the C library is attributed to its caller.
  EXPECT_THAT(FakeCall("abort").run().site, StartsWith("SIGABRT at behaviours.so+0x"));
  EXPECT_THAT(FakeCall("crash-plan").plan().site, StartsWith("SIGSEGV at behaviours.so+0x"));
  EXPECT_EQ(FakeCall("exit").run().site, "");
  EXPECT_EQ(FakeCall("copy").run().site, "");
}

TEST(Worker, SaysWhereTheKernelIsStuck) {
  FakeCall hang("hang");
  const std::string site = hang.run().site;
  EXPECT_THAT(site, StartsWith("stuck in behaviours.so+0x"));
  EXPECT_EQ(hang.run().site, site) << "in another process";
  const std::string in_plan = FakeCall("hang-plan").plan().site;
  EXPECT_THAT(in_plan, StartsWith("stuck in behaviours.so+0x"));
  EXPECT_NE(in_plan, site);
  EXPECT_EQ(FakeCall("deaf").run().site, "stuck in run()") << "it blocks the signal that asks for the place";
}

TEST(Worker, TimesARunOut) {
  for (const char* kernel : {"hang", "print"}) {
    FakeCall call(kernel);
    const RunReply run = call.run();
    EXPECT_TRUE(run.timed_out);
    EXPECT_FALSE(run.crash);
    EXPECT_EQ(run.status, ATTN_FAULT);
    EXPECT_EQ(call.plan().status, ATTN_OK) << "on a fresh worker";
  }
}

TEST(Worker, IsNotTimedOutWhileItWaits) {
  WorkerOptions options = fake_options("behaviours", "nap");
  options.watchdog = 0.1;
  options.patience = 600;
  FakeCall call(options);
  const RunReply run = call.run();
  EXPECT_FALSE(run.timed_out);
  EXPECT_EQ(run.status, ATTN_OK);
}

// Only the limit of processor time ends this run before the timeout of ctest.
TEST(Worker, IsTimedOutByItsProcessorTime) {
  WorkerOptions options = fake_options("behaviours", "hang");
  options.patience = 1e5;
  FakeCall call(options);
  EXPECT_TRUE(call.run().timed_out);
}

TEST(Worker, HasLessTimeWhileItIsWatchedBriefly) {
  WorkerOptions options = fake_options("behaviours", "burn");
  options.watchdog = 2;
  options.patience = 600;
  FakeCall call(options);
  EXPECT_EQ(call.run().status, ATTN_OK);
  call.target->watch(Watch::kBrief);
  EXPECT_TRUE(call.run().timed_out);
  call.target->watch(Watch::kFull);
  EXPECT_EQ(call.run().status, ATTN_OK);
}

constexpr double kPacedWatchdog = 0.1;

FakeCall paced(const char* kernel) {
  WorkerOptions options = fake_options("paces", kernel);
  options.watchdog = kPacedWatchdog;
  options.patience = 1e5;
  return FakeCall(options);
}

TEST(Worker, GivesMoreTimeToACallWhoseBlocksEnd) {
  const RunReply run = paced("ends").run();
  EXPECT_FALSE(run.timed_out);
  EXPECT_EQ(run.status, ATTN_OK);
}

TEST(Worker, TellsASlowCallFromAStuckOne) {
  FakeCall slow = paced("slow");
  const RunReply run = slow.run();
  EXPECT_TRUE(run.timed_out);
  ASSERT_TRUE(run.slow);
  EXPECT_GT(run.slow->done, 0u);
  EXPECT_LT(run.slow->done, 1'000'000u);
  EXPECT_EQ(run.slow->blocks, 1'000'000u);
  EXPECT_GE(run.slow->seconds, kTimesSlow * kPacedWatchdog);
  EXPECT_EQ(run.site, "");
  slow.target->watch(Watch::kBrief);
  const RunReply brief = slow.run();
  EXPECT_TRUE(brief.timed_out);
  if (brief.slow)
    EXPECT_LT(brief.slow->seconds, kTimesSlow * kPacedWatchdog) << "a brief watch gives no more time";

  const RunReply stuck = paced("stuck").run();
  EXPECT_TRUE(stuck.timed_out);
  EXPECT_FALSE(stuck.slow);
  EXPECT_THAT(stuck.site, StartsWith("stuck in paces.so+0x"));
}

TEST(Worker, GivesAStrangerNoMoreTime) {
  WorkerOptions options = fake_options("paces", "slow");
  options.watchdog = kPacedWatchdog;
  options.patience = 1e5;
  options.measures = kMeasureProcess;
  FakeCall call(options);
  const RunReply run = call.run();
  EXPECT_TRUE(run.timed_out);
  EXPECT_FALSE(run.slow);
}

TEST(Watchdog, GivesMoreTimeWhileBlocksEnd) {
  const double allowed = 10, most = 40;
  const auto ended_at = [&](auto blocks_by) {
    Pace pace(allowed, most);
    double used = 0;
    for (double until = pace.until(0, 0); until > used; until = pace.until(used, blocks_by(used))) used = until;
    return std::pair(used, pace.goes_on());
  };
  EXPECT_EQ(ended_at([](double) { return 0; }), std::pair(allowed, false));
  EXPECT_EQ(ended_at([](double used) { return static_cast<int>(used); }), std::pair(most, true));
  // Two blocks end soon, and the third never ends.
  EXPECT_EQ(ended_at([](double used) { return used > 2 ? 2 : 0; }), std::pair(allowed, false));
  EXPECT_EQ(ended_at([](double used) { return used > 12 ? 12 : static_cast<int>(used); }),
            std::pair(20.0, false));
  // Several threads may have used up all the time before the first look.
  Pace pace(allowed, most);
  EXPECT_GT(pace.until(11, 3), 11);
  EXPECT_LE(pace.until(41, 5), 41);
  Pace brief(allowed, allowed);
  EXPECT_EQ(brief.until(10, 3), 10);
  EXPECT_TRUE(brief.goes_on());
}

TEST(Watchdog, AllowsMoreForMoreWork) {
  attn_problem p = {};
  p.batch = 2;
  p.heads_q = 3;
  p.seq_q = 65;
  p.seq_k = 1;
  p.dim_qk = 16;
  p.dim_v = 64;
  const double small = work_of(p, 1);
  EXPECT_EQ(small, 2.0 * 3 * 128 * (64 + 64) * 2 * 64);
  EXPECT_EQ(work_of(p, 0), small);
  EXPECT_GT(work_of(p, 9), small);
  p.seq_k = 65;
  EXPECT_GT(work_of(p, 1), small);
  p.seq_k = 0;
  EXPECT_GT(work_of(p, 1), 0) << "blocks without keys are not free";
  EXPECT_GT(allowance(5, p, 1, ATTN_CPU), 5);
  EXPECT_LT(allowance(5, p, 1, ATTN_CUDA), allowance(5, p, 1, ATTN_CPU));  // CUDA: only the clock counts
  p.batch = p.heads_q = p.seq_q = p.seq_k = INT64_MAX;
  EXPECT_LT(allowance(5, p, INT64_MAX, ATTN_CPU), 1e5);
  p.batch = -1;
  EXPECT_EQ(allowance(5, p, 1, ATTN_CPU), 5);
}

TEST(Worker, WatchesPlanToo) {
  FakeCall hang("hang-plan");
  EXPECT_TRUE(hang.plan().timed_out);
  EXPECT_EQ(hang.run().status, ATTN_OK);
  FakeCall crash("crash-plan");
  const PlanReply plan = crash.plan();
  EXPECT_EQ(plan.status, ATTN_FAULT);
  ASSERT_TRUE(plan.crash);
  EXPECT_THAT(*plan.crash, StartsWith("SIGSEGV in plan()"));
  EXPECT_EQ(crash.run().status, ATTN_OK);
}

TEST(Worker, ChecksAPlanBeforeItPassesItOn) {
  FakeCall odd("odd-plan");
  EXPECT_THAT(odd.plan().bad_plan.value_or(""), HasSubstr("path has no terminating NUL"));
  FakeCall tiles("no-tiles");
  const PlanReply plan = tiles.plan();
  EXPECT_THAT(plan.bad_plan.value_or(""), StartsWith("tile_q is 0, must be 1.."));
  EXPECT_FALSE(plan.crash) << "it did not die";
  EXPECT_EQ(plan.status, ATTN_FAULT);
}

TEST(Worker, KeepsTheFirstReport) {
  FakeCall call("report");
  for (int i = 0; i < 2; ++i) {
    const RunReply run = call.run();
    EXPECT_EQ(run.status, ATTN_FAULT);
    EXPECT_FALSE(run.crash);
    ASSERT_TRUE(run.fault);
    EXPECT_EQ(run.fault->kind, ATTN_REPORT_DIVERGENCE);
    EXPECT_EQ(run.fault->message, "the first");
    EXPECT_EQ(run.fault->file, "some.cu");
    EXPECT_EQ(run.fault->line, 12);
    EXPECT_EQ(run.fault->shared_bytes, 120'000);
    EXPECT_EQ(run.fault->block[1], 7u);
    EXPECT_EQ(run.fault->thread[0], 31u);
  }
}

TEST(Worker, BoundsAReportThatMakesNoSense) {
  FakeCall call("odd-report");
  const RunReply run = call.run();
  ASSERT_TRUE(run.fault);
  EXPECT_EQ(run.fault->kind, ATTN_REPORT_DEVICE);
  EXPECT_EQ(run.fault->message.size(), 511u);
}

TEST(Worker, RunsStagesAndReturnsThePlaceOfTheirPartials) {
  FakeCall call("", "stages");
  EXPECT_TRUE(call.target->info().has_stages);
  EXPECT_EQ(call.run(Stage::kPartial).status, ATTN_OK);
  EXPECT_EQ(call.run(Stage::kReduce).status, ATTN_LAUNCH_FAILED);
  call.planned.workspace_bytes = 2 * 4 * (8 + 1) * sizeof(float);
  call.planned.num_splits = 2;
  std::string why = "as it was";
  const auto partials = call.target->partials(call.problem, call.planned, &why);
  ASSERT_TRUE(partials) << why;
  EXPECT_EQ(why, "");
  EXPECT_EQ(partials->num_splits, 2);

  FakeCall none("copy");
  EXPECT_FALSE(none.target->partials(none.problem, none.planned, &why));
  EXPECT_EQ(why, "");
}

TEST(Worker, RefusesPartialsOutsideTheWorkspace) {
  FakeCall call("", "stages");
  const char* const expected[] = {"partials.o does not lie in the planned workspace",
                                  "partials.lse does not lie", "partials.o_stride is negative",
                                  "returned status 2", "in partials()"};
  for (int i = 0; i < 5; ++i) {
    call.planned.num_splits = 3 + i;
    call.planned.workspace_bytes = static_cast<uint64_t>(3 + i) * 4 * (8 + 1) * sizeof(float);
    if (i == 0) call.problem.batch = 2;  // with one entry the stride is not used
    std::string why;
    EXPECT_FALSE(call.target->partials(call.problem, call.planned, &why)) << i;
    EXPECT_THAT(why, HasSubstr(expected[i])) << i;
    call.problem.batch = 1;
  }
}

TEST(Worker, SaysWhyALibraryCannotBeUsed) {
  const struct {
    const char *library, *kernel, *why;
  } cases[] = {
      {"there_is_none", "", "there_is_none.so cannot be read: No such file or directory"},
      {"no_export", "", "does not export attn_kernel_at"},
      {"no_kernels", "", "the library has no kernels"},
      {"no_end", "", "attn_kernel_at(1024) is still not NULL"},
      {"wrong_abi", "", "attn_kernel.abi is 2, this program speaks 1: rebuild"},
      {"wrong_size", "", "attn_kernel.size is 24"},
      {"other_backend", "", "kernel gpu is of back end cuda, this worker of cpu"},
      {"undefined", "", "function_that_nobody_defines"},
      {"crash_loading", "", "SIGABRT while the library was loaded"},
      {"behaviours", "nobody", "has no kernel 'nobody'; it has: copy refuse null"},
      {"behaviours", "999", "has no kernel '999'"},
  };
  for (const auto& c : cases) {
    std::string error;
    EXPECT_FALSE(open_target(fake_options(c.library, c.kernel), &error)) << c.library;
    EXPECT_THAT(error, HasSubstr(c.why)) << c.library;
  }
  std::string error;
  WorkerOptions options = fake_options("behaviours");
  options.worker = "/nowhere/attnfuzz-worker-cpu";
  EXPECT_FALSE(open_target(options, &error));
  EXPECT_THAT(error, HasSubstr("cannot start /nowhere/attnfuzz-worker-cpu"));
}

TEST(Worker, ChoosesAKernelByNameOrIndex) {
  for (const char* selector : {"refuse", "1"}) {
    FakeCall call(selector);
    EXPECT_EQ(call.target->info().name, "refuse");
  }
}

// Prints the round-trip time, and asserts nothing, because machines differ. Expected: at most 20 microseconds.
TEST(Worker, RoundTripTime) {
  FakeCall call("copy");
  constexpr int kTrips = 2000;
  for (int i = 0; i < 100; ++i) call.run();
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kTrips; ++i) call.run();
  const double awake = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  double asleep = 0;
  for (int i = 0; i < 200; ++i) {
    usleep(500);  // by now the worker sleeps
    start = std::chrono::steady_clock::now();
    call.run();
    asleep += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  std::printf("round trip: %.1f us in a row, %.1f us to a sleeping worker\n", awake / kTrips * 1e6,
              asleep / 200 * 1e6);
}

}  // namespace
}  // namespace attnfuzz
