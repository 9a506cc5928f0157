// Tests cuda::pipeline: its stages, when copies land, and misuse that hangs on a GPU.
#include "kernels/cuda_source/cuda/pipeline.h"

#include <cmath>

#include "kernels/cuda_source/runtime.h"
#include "tests/kernels/executor/harness.h"

namespace attn {
namespace {

enum class Pipeline { kRight, kNoRelease, kOneStageTooMany, kNoWait, kOneThreadLess, kTwice, kMiddle };

constexpr int kTiles = 7, kStages = 2, kThreads = 40;
using State = cuda::pipeline_shared_state<cuda::thread_scope_block, kStages>;

// Adds up the rows of `in`, which has kTiles rows of kThreads numbers, in reverse order of columns.
__device__ void sum_rows(Pipeline how, const float* in, float* out, State* state, float* tile, int* line) {
  const auto block = cooperative_groups::this_thread_block();
  auto pipe = cuda::make_pipeline(block, state);
  const int me = static_cast<int>(threadIdx.x),
            ahead = how == Pipeline::kOneStageTooMany ? kStages : kStages - 1;
  const auto fetch = [&](int t) {
    if (how == Pipeline::kOneThreadLess && me == 3) return;
    *line = __LINE__ + 1;
    pipe.producer_acquire();
    cuda::memcpy_async(block, tile + t % kStages * kThreads, in + t * kThreads, sizeof(float) * kThreads, pipe);
    pipe.producer_commit();
  };
  float sum = 0;
  for (int t = 0; t < ahead; ++t) fetch(t);
  for (int t = 0; t < kTiles; ++t) {
    if (t + ahead < kTiles) fetch(t + ahead);
    if (how == Pipeline::kOneThreadLess) *line = __LINE__ + 1;
    if (how != Pipeline::kNoWait) pipe.consumer_wait();
    sum += tile[t % kStages * kThreads + kThreads - 1 - me];
    if (how == Pipeline::kNoWait) pipe.consumer_wait();
    if (how != Pipeline::kNoRelease && !(how == Pipeline::kMiddle && me % 2 && t == kTiles - 1))
      pipe.consumer_release();
  }
  out[me] = sum;
}

__global__ void pipelined(Pipeline how, const float* in, float* out, int* line) {
  auto* const shared = static_cast<char*>(simt::dynamic_shared(simt::Place::now()));
  auto* const tile = reinterpret_cast<float*>(shared + 64);
  sum_rows(how, in, out, reinterpret_cast<State*>(shared), tile, line);
  if (how != Pipeline::kTwice) return;
  __syncthreads();
  sum_rows(how, in, out, reinterpret_cast<State*>(shared), tile, line);
}

struct PipelineRun {
  Outcome outcome;
  int line = 0;
  int wrong = 0;  // sums
};

PipelineRun run_pipeline(Pipeline how, uint64_t seed) {
  PipelineRun result;
  alignas(16) float in[kTiles * kThreads];
  float out[kThreads] = {};
  for (int i = 0; i < kTiles * kThreads; ++i) in[i] = static_cast<float>(i);
  result.outcome =
      run_on_cpu(pipelined, 1, kThreads, {.seed = seed, .shared = 64 + sizeof(float) * kStages * kThreads}, how,
                 in, out, &result.line);
  for (int i = 0; i < kThreads; ++i) {
    result.wrong +=
        out[i] != static_cast<float>(kThreads * kTiles * (kTiles - 1) / 2 + kTiles * (kThreads - 1 - i));
  }
  return result;
}

TEST(Pipeline, ARightKernelIsRightUnderEverySchedule) {
  for (Pipeline how : {Pipeline::kRight, Pipeline::kTwice, Pipeline::kMiddle}) {
    for (uint64_t seed : all_schedules()) {
      const PipelineRun done = run_pipeline(how, seed);
      EXPECT_EQ(done.outcome.told(), "ok") << seed;
      EXPECT_EQ(done.wrong, 0) << seed;
    }
  }
}

// Stage 0 is full again only after all threads have released it.
TEST(Pipeline, StagesThatNobodyReleasesAreADeadlock) {
  for (Pipeline how : {Pipeline::kNoRelease, Pipeline::kOneStageTooMany}) {
    for (uint64_t seed : all_schedules()) {
      const PipelineRun done = run_pipeline(how, seed);
      expect_told(done.outcome, ATTN_REPORT_DEADLOCK, "arrivals, 0 bytes to come) for ever");
      EXPECT_EQ(done.outcome.reports.at(0).line, done.line);
    }
  }
}

TEST(Pipeline, AStageIsFullOnlyWhenAllThreadsHaveCommitted) {
  for (uint64_t seed : all_schedules())
    expect_told(run_pipeline(Pipeline::kOneThreadLess, seed).outcome, ATTN_REPORT_DEADLOCK,
                "(39 of 40 arrivals");
}

TEST(Pipeline, AMissingWaitShowsWhenLandingLate) {
  constexpr uint64_t kEarly = 4;
  for (uint64_t seed : all_schedules()) {
    const PipelineRun done = run_pipeline(Pipeline::kNoWait, seed);
    EXPECT_EQ(done.outcome.told(), "ok");
    if (!(seed & kEarly)) {
      EXPECT_GT(done.wrong, 0) << seed;
    }
  }
}

// Threads of one warp wait for copies of threads that are at a barrier before their own wait.
__global__ void wait_before_a_barrier(const float* in, float* out) {
  auto* const shared = static_cast<char*>(simt::dynamic_shared(simt::Place::now()));
  auto* const tile = reinterpret_cast<float*>(shared + 64);
  const auto block = cooperative_groups::this_thread_block();
  auto pipe = cuda::make_pipeline(block, reinterpret_cast<State*>(shared));
  pipe.producer_acquire();
  cuda::memcpy_async(tile + threadIdx.x, in + threadIdx.x, sizeof(float), pipe);
  pipe.producer_commit();
  if (threadIdx.x < 32) pipe.consumer_wait();
  if (threadIdx.x < 32) out[threadIdx.x] = tile[63 - threadIdx.x];
  __syncthreads();
  if (threadIdx.x >= 32) pipe.consumer_wait();
  if (threadIdx.x >= 32) out[threadIdx.x] = tile[63 - threadIdx.x];
}

TEST(Pipeline, CopiesLandThoughTheirThreadWaitsElsewhere) {
  for (uint64_t seed : all_schedules()) {
    float in[64], out[64] = {};
    for (int i = 0; i < 64; ++i) in[i] = static_cast<float>(i);
    EXPECT_EQ(run_on_cpu(wait_before_a_barrier, 1, 64, {.seed = seed, .shared = 512}, in, out).told(), "ok");
    for (int i = 0; i < 64; ++i) EXPECT_EQ(out[i], 63 - i);
  }
}

// A pipeline of one thread has no stages.
__global__ void pipelined_by_thread(const float* in, float* out) {
  auto* const tile = static_cast<float*>(simt::dynamic_shared(simt::Place::now()));
  auto pipe = cuda::make_pipeline();
  for (int i = 0; i < 4; ++i) {
    pipe.producer_acquire();
    cuda::memcpy_async(tile + 4 * i, in + 4 * i, 4 * sizeof(float), pipe);
    pipe.producer_commit();
  }
  cuda::pipeline_consumer_wait_prior<2>(pipe);
  out[0] = tile[7];
  out[1] = tile[8];
  pipe.consumer_wait();
  out[2] = tile[8];
  out[3] = tile[12];
  pipe.consumer_wait();
  out[4] = tile[12];
}

TEST(Pipeline, OfAThreadWaitsForItsOldestCopies) {
  alignas(16) float in[16], out[5] = {};
  for (int i = 0; i < 16; ++i) in[i] = static_cast<float>(i);
  ASSERT_EQ(run_on_cpu(pipelined_by_thread, 1, 1, {.shared = 64}, in, out).told(), "ok");
  EXPECT_TRUE(out[0] == 7 && std::isnan(out[1]) && out[2] == 8 && std::isnan(out[3]) && out[4] == 12);
}

}  // namespace
}  // namespace attn
