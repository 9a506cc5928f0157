// Tests the order that barriers give, and the reports of their misuse.
#include "kernels/primitives/barrier.h"

#include "kernels/primitives/shared.h"
#include "tests/kernels/executor/harness.h"

namespace attn {
namespace {

// Neighbours exchange values through shared memory, many times over.
__global__ void rotate(int* out, int rounds) {
  SharedArena arena;
  int* slots = arena.carve<int>(blockDim.x);
  int value = static_cast<int>(threadIdx.x);
  for (int round = 0; round < rounds; ++round) {
    slots[threadIdx.x] = value;
    cta_sync();
    value = slots[(threadIdx.x + 1) % blockDim.x];
    cta_sync();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

TEST(Barrier, OrdersSharedMemoryUnderEverySchedule) {
  for (uint64_t seed : kOrders) {
    for (unsigned threads : {1u, 31u, 32u, 33u, 128u, 1024u}) {
      std::vector<int> out(2 * threads, -1);
      const Outcome run =
          run_on_cpu(rotate, 2, threads, {.seed = seed, .shared = threads * 4 + 16}, out.data(), 5);
      ASSERT_EQ(run.told(), "ok");
      for (unsigned i = 0; i < 2 * threads; ++i)
        ASSERT_EQ(out[i], static_cast<int>((i % threads + 5) % threads));
    }
  }
}

// Without the second barrier a fast thread overwrites a value that a slow one still
// has to read. Some schedule must show it.
__global__ void rotate_without_second_barrier(int* out) {
  SharedArena arena;
  int* slots = arena.carve<int>(blockDim.x);
  int value = static_cast<int>(threadIdx.x);
  for (int round = 0; round < 4; ++round) {
    slots[threadIdx.x] = value;
    cta_sync();
    value = slots[(threadIdx.x + 1) % blockDim.x];
  }
  out[threadIdx.x] = value;
}

TEST(Barrier, AMissingOneShowsInTheResult) {
  int wrong_schedules = 0;
  for (uint64_t seed : kOrders) {
    std::vector<int> out(64);
    EXPECT_EQ(
        run_on_cpu(rotate_without_second_barrier, 1, 64, {.seed = seed, .shared = 1024}, out.data()).told(),
        "ok");
    bool wrong = false;
    for (int i = 0; i < 64; ++i) wrong |= out[i] != (i + 4) % 64;
    wrong_schedules += wrong;
  }
  EXPECT_GE(wrong_schedules, 4);
}

__global__ void one_warp_skips(int* line) {
  *line = __LINE__ + 1;
  if (threadIdx.x >= 32) cta_sync();
  cta_sync();
}

// Otherwise threads at one barrier would pair up with threads at the next.
TEST(Barrier, ReachedFromDifferentPlacesIsReported) {
  int line = 0;
  const Outcome run = run_on_cpu(one_warp_skips, dim3(3, 2), 64, {}, &line);
  expect_fault(run, ATTN_REPORT_DIVERGENCE, {32, 0, 0}, line, "thread (0,0,0) at");
  EXPECT_EQ(run_on_cpu(one_warp_skips, dim3(3, 2), 64, {.seed = 1}, &line).reports.at(0).block,
            (std::array<uint32_t, 3>{2, 1, 0}));
}

__global__ void exits_early(int* calls) {
  if (threadIdx.x == 5) return;
  for (int i = 0; i < 3; ++i) {
    ++*calls;
    cta_sync();
  }
}

// As on hardware, a barrier of the block waits only for the threads that have not exited.
TEST(Barrier, DoesNotWaitForExitedThreads) {
  for (uint64_t seed : kOrders) {
    int calls = 0;
    EXPECT_EQ(run_on_cpu(exits_early, 1, dim3(64), {.seed = seed}, &calls).told(), "ok");
    EXPECT_EQ(calls, 63 * 3);
  }
}

__global__ void all_but_one_warp_leaves(int* calls) {
  if (threadIdx.x >= 32) return;
  for (int i = 0; i < 3; ++i) {
    ++*calls;
    cta_sync();
  }
}

TEST(Barrier, DoesNotWaitForExitedWarps) {
  for (uint64_t seed : kOrders) {
    int calls = 0;
    EXPECT_EQ(run_on_cpu(all_but_one_warp_leaves, 1, dim3(128), {.seed = seed}, &calls).told(), "ok");
    EXPECT_EQ(calls, 32 * 3);
  }
}

__global__ void leaves_a_named_barrier(int* line) {
  *line = __LINE__ + 2;
  if (threadIdx.x == 5) return;
  bar_sync(1, 64);
}

TEST(NamedBarrier, WaitsForItsCount) {
  for (uint64_t seed : kOrders) {
    int line = 0;
    expect_fault(run_on_cpu(leaves_a_named_barrier, 1, dim3(64), {.seed = seed}, &line), ATTN_REPORT_DEADLOCK,
                 {0, 0, 0}, line, "thread (5,0,0) has left");
  }
}

// Producers fill, consumers read, through two named barriers a slot.
__global__ void producer_consumer(int* out) {
  SharedArena arena;
  int* slot = arena.carve<int>(32);
  constexpr int kFull = 1, kEmpty = 2;
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (threadIdx.x < 32) {
    for (int i = 0; i < 8; ++i) {
      if (i > 0) bar_sync(kEmpty, 64);
      slot[lane] = 100 * i + lane;
      bar_arrive(kFull, 64);
    }
  } else {
    for (int i = 0; i < 8; ++i) {
      bar_sync(kFull, 64);
      out[32 * i + lane] = slot[31 - lane];
      if (i < 7) bar_arrive(kEmpty, 64);
    }
  }
}

TEST(NamedBarrier, CarriesAPipelineUnderEverySchedule) {
  for (uint64_t seed : kOrders) {
    std::vector<int> out(256, -1);
    ASSERT_EQ(run_on_cpu(producer_consumer, 1, 64, {.seed = seed, .shared = 256}, out.data()).told(), "ok");
    for (int i = 0; i < 256; ++i) EXPECT_EQ(out[i], 100 * (i / 32) + 31 - i % 32);
  }
}

__global__ void odd_count(int* line) {
  *line = __LINE__ + 1;
  bar_sync(1, 48);
}

TEST(NamedBarrier, ACountThatIsNoMultipleOf32IsReported) {
  int line = 0;
  expect_fault(run_on_cpu(odd_count, 1, 64, {}, &line), ATTN_REPORT_DIVERGENCE, {0, 0, 0}, line,
               "multiple of 32");
}

__global__ void more_than_the_block(int* line) {
  *line = __LINE__ + 1;
  bar_sync(1, 128);
}

TEST(NamedBarrier, ACountBeyondTheBlockIsReported) {
  int line = 0;
  expect_fault(run_on_cpu(more_than_the_block, 1, 96, {}, &line), ATTN_REPORT_DIVERGENCE, {0, 0, 0}, line,
               "for 128 threads in a block of 96");
}

__global__ void seventeenth(int* line) {
  *line = __LINE__ + 1;
  bar_sync(16, 64);
}

TEST(NamedBarrier, TheSeventeenthIsReported) {
  int line = 0;
  expect_fault(run_on_cpu(seventeenth, 1, 64, {}, &line), ATTN_REPORT_DIVERGENCE, {0, 0, 0}, line,
               "no barrier 16");
}

__global__ void counts_differ(int* line) {
  *line = __LINE__ + 1;
  bar_sync(3, threadIdx.x < 32 ? 64 : 96);
}

TEST(NamedBarrier, DifferentCountsAreReported) {
  int line = 0;
  expect_fault(run_on_cpu(counts_differ, 1, 96, {}, &line), ATTN_REPORT_DIVERGENCE, {32, 0, 0}, line,
               "for 96 threads, while thread (0,0,0) came for 64");
}

__global__ void arrives_for_nobody(int* line) {
  *line = __LINE__ + 1;
  if (threadIdx.x < 64) bar_arrive(4, 128);
}

TEST(NamedBarrier, LeftoverArrivalsAreReported) {
  int line = 0;
  expect_fault(run_on_cpu(arrives_for_nobody, 1, 128, {}, &line), ATTN_REPORT_DEADLOCK, {0, 0, 0}, line,
               "64 of 128 arrivals at barrier 4");
}

__global__ void wait_for_each_other(int* line) {
  *line = __LINE__ + 2;
  if (threadIdx.x < 32)
    bar_sync(1, 64);
  else
    bar_sync(2, 64);
}

TEST(NamedBarrier, WaitingForEachOtherIsADeadlock) {
  int line = 0;
  expect_fault(run_on_cpu(wait_for_each_other, 1, 64, {}, &line), ATTN_REPORT_DEADLOCK, {0, 0, 0}, line,
               "thread (32,0,0) waits at barrier 2");
}

__global__ void warp_splits(int* line) {
  *line = __LINE__ + 4;
  if (threadIdx.x % 32 < 16)
    bar_sync(1, 64);
  else
    bar_sync(1, 64);
}

TEST(NamedBarrier, OneWarpFromTwoPlacesIsReported) {
  int line = 0;
  expect_fault(run_on_cpu(warp_splits, 1, 64, {}, &line), ATTN_REPORT_DIVERGENCE, {16, 0, 0}, line,
               "by lane 0");
}

}  // namespace
}  // namespace attn
