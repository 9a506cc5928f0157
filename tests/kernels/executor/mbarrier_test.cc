// Tests mbarriers: the order that they give, and the reports of their misuse.
#include "kernels/primitives/mbarrier.h"

#include "kernels/primitives/barrier.h"
#include "kernels/primitives/shared.h"
#include "tests/kernels/executor/harness.h"

namespace attn {
namespace {

constexpr size_t kShared = 1024;

// Producers fill and consumers read two slots in a ring.
__global__ void producer_consumer(int* out, int rounds) {
  SharedArena arena;
  int* slot = arena.carve<int>(2 * 32);
  Mbarrier* full = arena.carve<Mbarrier>(2);
  Mbarrier* empty = arena.carve<Mbarrier>(2);
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; ++s) mbarrier_init(&full[s], 32), mbarrier_init(&empty[s], 32);
    mbarrier_init_fence();
  }
  cta_sync();
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int i = 0; i < rounds; ++i) {
    const int s = i % 2;
    const uint32_t phase = static_cast<uint32_t>(i / 2 % 2);
    if (threadIdx.x < 32) {
      mbarrier_wait(&empty[s], phase ^ 1);
      slot[32 * s + lane] = 100 * i + lane;
      mbarrier_arrive(&full[s], true);
    } else {
      mbarrier_wait(&full[s], phase);
      out[32 * i + lane] = slot[32 * s + 31 - lane];
      mbarrier_arrive(&empty[s], true);
    }
  }
}

TEST(Mbarrier, CarriesAPipelineUnderEverySchedule) {
  for (uint64_t seed : kOrders) {
    std::vector<int> out(32 * 9, -1);
    ASSERT_EQ(run_on_cpu(producer_consumer, 1, 64, {.seed = seed, .shared = kShared}, out.data(), 9).told(),
              "ok");
    for (int i = 0; i < 32 * 9; ++i) EXPECT_EQ(out[i], 100 * (i / 32) + 31 - i % 32);
  }
}

enum class Wrong {
  kNothing,
  kNotInitialised,
  kOverwritten,
  kNoFence,
  kTwice,
  kMisaligned,
  kNoShared,
  kOneTooMany,
  kMidPhase,
  kHalfArrives,
  kMissedPhase,
  kZeroCount,
  kHugeCount,
  kPhaseForParity,
};

__global__ void misuse(Wrong wrong, int* line) {
  SharedArena arena;
  Mbarrier* bar = arena.carve<Mbarrier>(2);
  const bool first = threadIdx.x == 0;
  if (first) {
    if (wrong == Wrong::kZeroCount || wrong == Wrong::kHugeCount) {
      *line = __LINE__ + 1;
      mbarrier_init(bar, wrong == Wrong::kZeroCount ? 0 : 1 << 20);
    }
    if (wrong == Wrong::kMidPhase) *line = __LINE__ + 1;
    if (wrong != Wrong::kNotInitialised) mbarrier_init(bar, wrong == Wrong::kOneTooMany ? 1 : 2);
    if (wrong == Wrong::kTwice) {
      *line = __LINE__ + 1;
      mbarrier_init(bar, 2);
    }
    if (wrong != Wrong::kNoFence) mbarrier_init_fence();
    if (wrong == Wrong::kOverwritten) bar->bits = 0;
  }
  cta_sync();
  if (wrong == Wrong::kMidPhase || (wrong == Wrong::kHalfArrives && threadIdx.x == 1)) {
    if (!first) {
      if (wrong == Wrong::kHalfArrives) *line = __LINE__ + 1;
      if (wrong == Wrong::kHalfArrives) mbarrier_wait(bar, 0);
      return;
    }
    mbarrier_arrive(bar, true);
    return;
  }
  if (wrong == Wrong::kHalfArrives) {
    mbarrier_arrive(bar, true);
    mbarrier_wait(bar, 1);
    return;
  }
  if (wrong == Wrong::kMissedPhase) {
    if (threadIdx.x == 1) {
      mbarrier_wait(bar, 0);
    } else {
      mbarrier_arrive(bar, true), mbarrier_arrive(bar, true);
      mbarrier_arrive(bar, true);
      *line = __LINE__ + 1;
      mbarrier_arrive(bar, true);
    }
    return;
  }
  if (wrong == Wrong::kOneTooMany) {
    if (!first) return;
    mbarrier_expect(bar, 16);
    *line = __LINE__ + 1;
    mbarrier_arrive(bar, true);
    return;
  }
  if (wrong == Wrong::kPhaseForParity) {
    *line = __LINE__ + 1;
    mbarrier_wait(bar, 2);
  }
  Mbarrier host;
  void* odd = reinterpret_cast<char*>(bar) + 4;
  Mbarrier* which = wrong == Wrong::kMisaligned ? static_cast<Mbarrier*>(odd)
                    : wrong == Wrong::kNoShared ? &host
                                                : bar;
  *line = __LINE__ + 1;
  mbarrier_arrive(which, true);
  mbarrier_wait(bar, 0);
}

Outcome run(Wrong wrong, int* line, uint64_t seed = 1) {
  return run_on_cpu(misuse, 1, 2, {.seed = seed, .shared = kShared}, wrong, line);
}

TEST(Mbarrier, MisuseIsReported) {
  struct {
    Wrong wrong;
    attn_report_kind kind;
    const char* words;
    uint64_t seed = 1;
  } cases[] = {
      {Wrong::kNotInitialised, ATTN_REPORT_ASYNC, "where no barrier has been initialised"},
      {Wrong::kOverwritten, ATTN_REPORT_ASYNC, "which was written over"},
      {Wrong::kNoFence, ATTN_REPORT_ASYNC, "has not called mbarrier_init_fence"},
      {Wrong::kTwice, ATTN_REPORT_ASYNC, "is initialised again"},
      {Wrong::kMisaligned, ATTN_REPORT_ALIGNMENT, "not a multiple of 8"},
      {Wrong::kNoShared, ATTN_REPORT_SHARED, "not in an array of shared memory"},
      {Wrong::kOneTooMany, ATTN_REPORT_ASYNC, "one arrival more than the 1"},
      {Wrong::kMidPhase, ATTN_REPORT_DEADLOCK, "in the middle of phase 0 of this barrier: 1 of 2 arrivals"},
      {Wrong::kHalfArrives, ATTN_REPORT_DEADLOCK, "(1 of 2 arrivals, 0 bytes to come) for ever"},
      {Wrong::kMissedPhase, ATTN_REPORT_ASYNC, "1 threads that waited for the phase before", 0},
      {Wrong::kZeroCount, ATTN_REPORT_ASYNC, "a barrier for 0 arrivals"},
      {Wrong::kHugeCount, ATTN_REPORT_ASYNC, "a barrier for 1048576 arrivals"},
      {Wrong::kPhaseForParity, ATTN_REPORT_ASYNC, "mbarrier_wait for parity 2"},
  };
  int line = 0;
  EXPECT_EQ(run(Wrong::kNothing, &line).told(), "ok");
  for (const auto& each : cases) {
    SCOPED_TRACE(each.words);
    const Outcome done = run(each.wrong, &line, each.seed);
    expect_told(done, each.kind, each.words);
    EXPECT_EQ(done.reports.at(0).line, line);
    EXPECT_EQ(run(Wrong::kNothing, &line).told(), "ok") << "the next launch is unharmed";
  }
}

// The barrier counts threads, but only one lane of each warp arrives.
__global__ void counts_threads(int* line) {
  SharedArena arena;
  Mbarrier* bar = arena.carve<Mbarrier>(1);
  if (threadIdx.x == 0) mbarrier_init(bar, blockDim.x), mbarrier_init_fence();
  cta_sync();
  if (threadIdx.x % 32 == 0) mbarrier_arrive(bar, true);
  *line = __LINE__ + 1;
  mbarrier_wait(bar, 0);
}

TEST(Mbarrier, ACountByThreadInsteadOfByWarpIsADeadlockThatNamesIt) {
  for (uint64_t seed : kOrders) {
    int line = 0;
    const Outcome run = run_on_cpu(counts_threads, 1, 128, {.seed = seed, .shared = kShared}, &line);
    expect_fault(run, ATTN_REPORT_DEADLOCK, {0, 0, 0}, line, "(4 of 128 arrivals, 0 bytes to come) for ever");
  }
}

// The producer's first wait must pass at once. With the other parity all threads wait for ever.
__global__ void wrong_phase(int* line) {
  SharedArena arena;
  Mbarrier* bar = arena.carve<Mbarrier>(2);
  if (threadIdx.x == 0) mbarrier_init(bar, 1), mbarrier_init(bar + 1, 1), mbarrier_init_fence();
  cta_sync();
  if (threadIdx.x == 0) {
    *line = __LINE__ + 1;
    mbarrier_wait(bar, 0);
    mbarrier_arrive(bar + 1, true);
  } else {
    mbarrier_wait(bar + 1, 0);
    mbarrier_arrive(bar, true);
  }
}

TEST(Mbarrier, AWrongPhaseIsADeadlockThatNamesBothWaits) {
  int line = 0;
  expect_fault(run_on_cpu(wrong_phase, 1, 2, {.shared = kShared}, &line), ATTN_REPORT_DEADLOCK, {0, 0, 0}, line,
               "thread (1,0,0) waits for phase 0 of the barrier initialised");
}

}  // namespace
}  // namespace attn
