// Tests launches: geometry, limits, stacks, and the orders that a seed gives.
#include "kernels/primitives/launch.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "kernels/executor/threads/progress.h"
#include "kernels/executor/threads/schedule.h"
#include "kernels/primitives/atomic.h"
#include "kernels/primitives/barrier.h"
#include "kernels/primitives/dependent.h"
#include "tests/kernels/executor/harness.h"

namespace attn {
namespace {

struct Large {
  int64_t value[40];
};

__global__ void geometry(std::vector<std::array<unsigned, 6>>* seen, const __grid_constant__ Large large) {
  EXPECT_EQ(large.value[39], 7);
  EXPECT_EQ(gridDim.x * gridDim.y * gridDim.z, 24u);
  EXPECT_EQ(blockDim.y, 3u);
  seen->push_back({blockIdx.z, blockIdx.y, blockIdx.x, threadIdx.z, threadIdx.y, threadIdx.x});
}

TEST(Launch, VisitsEveryThreadOfEveryBlockOnce) {
  for (uint64_t seed : kOrders) {
    std::vector<std::array<unsigned, 6>> seen;
    Large large{};
    large.value[39] = 7;
    EXPECT_EQ(run_on_cpu(geometry, dim3(4, 3, 2), dim3(5, 3, 7), {.seed = seed}, &seen, large).told(), "ok");
    EXPECT_EQ(seen.size(), 24u * 105);
    if (seed == 0) {
      EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
    }
    if (seed == 1) {
      EXPECT_TRUE(std::is_sorted(seen.rbegin(), seen.rend()));
    }
    EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), seen.size());
  }
}

__global__ void note_order(std::vector<unsigned>* order) { order->push_back(threadIdx.x); }

TEST(Schedule, RandomSeedsGiveManyOrdersAndEachTheSameTwice) {
  std::set<std::vector<unsigned>> orders;
  for (uint64_t seed = 0; seed < 64; ++seed) {
    std::vector<unsigned> first, again;
    run_on_cpu(note_order, 1, 96, {.seed = seed}, &first);
    run_on_cpu(note_order, 1, 96, {.seed = seed}, &again);
    EXPECT_EQ(first, again);
    orders.insert(first);
  }
  EXPECT_EQ(orders.size(), 32u + 2);
}

TEST(Schedule, SeedsMeanWhatTheHeaderSays) {
  EXPECT_EQ(simt::schedule_of(0).order, simt::Order::kAscending);
  EXPECT_EQ(simt::schedule_of(1).order, simt::Order::kDescending);
  EXPECT_EQ(simt::schedule_of(2).order, simt::Order::kRandom);
  EXPECT_EQ(simt::schedule_of(3).order, simt::Order::kRandom);
  EXPECT_FALSE(simt::schedule_of(3).copies_early);
  EXPECT_TRUE(simt::schedule_of(4).copies_early);
  EXPECT_FALSE(simt::schedule_of(4).mma_truncates);
  EXPECT_TRUE(simt::schedule_of(8).mma_truncates);
}

__global__ void nothing() {}

TEST(Launch, PublishesItsProgress) {
  simt::Progress progress;
  simt::publish_progress(&progress);
  EXPECT_EQ(run_on_cpu(nothing, dim3(3, 2), 32, {}).told(), "ok");
  EXPECT_EQ(progress.done, 6u);
  EXPECT_EQ(progress.blocks, 6u);
  EXPECT_EQ(run_on_cpu(nothing, dim3(4), 32, {}).told(), "ok");
  EXPECT_EQ(progress.done, 4u);
  EXPECT_EQ(progress.blocks, 4u);
  EXPECT_EQ(progress.ended, 10u);
  simt::publish_progress(nullptr);
  EXPECT_EQ(run_on_cpu(nothing, dim3(4), 32, {}).told(), "ok");
  EXPECT_EQ(progress.ended, 10u);
}

TEST(Launch, RefusesSizesThatNoDeviceTakes) {
  const auto refused = [](dim3 grid, dim3 block, RunOptions options, const char* words, int shared_bytes = 0) {
    const Outcome run = run_on_cpu(nothing, grid, block, options);
    EXPECT_EQ(run.status, ATTN_LAUNCH_FAILED);
    ASSERT_EQ(run.reports.size(), 1u);
    EXPECT_EQ(run.reports[0].kind, ATTN_REPORT_LAUNCH);
    EXPECT_NE(run.told().find(words), std::string::npos) << run.told();
    EXPECT_EQ(run.reports[0].shared_bytes, shared_bytes);
  };
  refused(0, 32, {}, "empty grid");
  refused(dim3(1, 0), 32, {}, "empty grid");
  refused(dim3(0x80000000u), 32, {}, "limits are");
  refused(dim3(1, 65536), 32, {}, "limits are");
  refused(dim3(1, 1, 65536), 32, {}, "limits are");
  refused(1, 0, {}, "1 to 1024 threads");
  refused(1, 1025, {}, "1 to 1024 threads");
  refused(1, dim3(32, 33), {}, "1 to 1024 threads");
  refused(1, dim3(1, 1, 65), {}, "at most (1024, 1024, 64)");
  refused(1, 32, {.shared = 1001, .shared_limit = 1000}, "a block may have 1000", 1001);
  refused(0, 32, {.shared = 1001, .shared_limit = 1000}, "empty grid");
  EXPECT_EQ(run_on_cpu(nothing, dim3(1, 65535), 32, {.shared = 1000, .shared_limit = 1000}).told(), "ok");
}

__global__ void launches(const attn_env* env) { launch(nothing, dim3(1), dim3(1), 0, env); }

TEST(Launch, FromAKernelIsReported) {
  attn_env env{};
  const Outcome outcome = run_on_cpu(launches, 1, 2, {}, &env);
  expect_fault(outcome, ATTN_REPORT_LAUNCH, {0, 0, 0}, 0, "only the host may");
}

__attribute__((noinline)) int descend(int depth, volatile char* above) {
  volatile char frame[1024];
  frame[0] = above ? above[0] : 1;
  return depth == 0 ? frame[0] : descend(depth - 1, frame) + frame[0];
}

__global__ void recurse(int* out, int depth) {
  cta_sync();
  if (threadIdx.x == 2) *out = descend(depth, nullptr);
}

TEST(Launch, AStackOverflowIsReportedAndSurvived) {
  int out = 0;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(run_on_cpu(recurse, 1, 64, {}, &out, 50).told(), "ok");
    expect_fault(run_on_cpu(recurse, dim3(1, 2), 64, {}, &out, 100000), ATTN_REPORT_STACK, {2, 0, 0}, 0,
                 "ran off its stack");
  }
}

__global__ void poll(uint32_t* flag, uint32_t* out) {
  if (threadIdx.x == blockDim.x / 2) {
    st_release(flag, 1);
  } else {
    while (ld_acquire(flag) == 0) {
    }
  }
  atomic_add(out, 1u);
}

TEST(Launch, PollingThreadsLetTheOthersRun) {
  for (uint64_t seed : kOrders) {
    uint32_t flag = 0, out = 0;
    EXPECT_EQ(run_on_cpu(poll, 1, 96, {.seed = seed}, &flag, &out).told(), "ok");
    EXPECT_EQ(out, 96u);
  }
}

// In the blocks up to `last`, thread 0 calls grid_dependency_wait().
__global__ void merge_behind(unsigned last, uint32_t* blocks) {
  grid_dependents_start();
  if (threadIdx.x != 0) return;
  if (blockIdx.x <= last) grid_dependency_wait();
  atomic_add(blocks, 1u);
}

TEST(Launch, EveryBlockOfADependentLaunchWaits) {
  for (uint64_t seed : kOrders) {
    uint32_t blocks = 0;
    EXPECT_EQ(run_on_cpu(merge_behind, 5, 64, {.seed = seed, .dependent = true}, 4, &blocks).told(), "ok");
    EXPECT_EQ(blocks, 5u);
    EXPECT_EQ(run_on_cpu(merge_behind, 5, 64, {.seed = seed}, 1, &blocks).told(), "ok")
        << "nothing to wait for";
    expect_told(run_on_cpu(merge_behind, 5, 64, {.seed = seed, .dependent = true}, 3, &blocks),
                ATTN_REPORT_ASYNC, "ended without grid_dependency_wait()");
  }
}

}  // namespace
}  // namespace attn
