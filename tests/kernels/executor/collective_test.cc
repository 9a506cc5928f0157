// Tests the reports of misused collectives of a warp.
#include "kernels/primitives/agree.h"
#include "kernels/primitives/warp.h"
#include "kernels/cuda_source/cuda/sync.h"
#include "tests/kernels/executor/harness.h"

namespace attn {
namespace {

__global__ void different_operations(int* line) {
  *line = __LINE__ + 4;
  if (lane_id() < 7)
    shfl(1.0f, 0);
  else
    ballot(true);
}

TEST(Collective, DifferentOperationsInOneWarpAreReported) {
  int line = 0;
  expect_fault(run_on_cpu(different_operations, 1, 64, {}, &line), ATTN_REPORT_DIVERGENCE, {7, 0, 0}, line,
               "ballot, while lane 0 of the warp waits in shfl");
}

__global__ void different_types(int* line) {
  *line = __LINE__ + 1;
  threadIdx.x < 40 ? (void)shfl(1.0f, 0) : (void)shfl(1, 0);
}

TEST(Collective, DifferentTemplateArgumentsAreReported) {
  int line = 0;
  expect_fault(run_on_cpu(different_types, 1, 64, {}, &line), ATTN_REPORT_DIVERGENCE, {40, 0, 0}, line,
               "other template arguments than lane 0");
}

__global__ void different_places(int* line) {
  *line = __LINE__ + 4;
  if (lane_id() != 31)
    syncwarp();
  else
    syncwarp();
}

TEST(Collective, DifferentPlacesAreReported) {
  int line = 0;
  expect_fault(run_on_cpu(different_places, 1, 32, {}, &line), ATTN_REPORT_DIVERGENCE, {31, 0, 0}, line,
               "syncwarp here, while lane 0");
}

__global__ void own_masks(int* line) {
  *line = __LINE__ + 1;
  __ballot_sync(threadIdx.x < 8 ? 0x0000ffffu : 0xffffffffu, 1);
}

TEST(Collective, DifferentMasksAreReported) {
  int line = 0;
  expect_fault(run_on_cpu(own_masks, 1, 32, {}, &line), ATTN_REPORT_DIVERGENCE, {8, 0, 0}, line,
               "mask ffffffff, while lane 0 waits in __ballot_sync with mask 0000ffff");
}

__global__ void left_out(int* line) {
  *line = __LINE__ + 1;
  __shfl_sync(0xfffffffeu, 1, 1);
}

TEST(Collective, AMaskWithoutTheCallerIsReported) {
  int line = 0;
  expect_fault(run_on_cpu(left_out, 1, 32, {}, &line), ATTN_REPORT_DIVERGENCE, {0, 0, 0}, line,
               "leaves out the calling lane 0");
}

__global__ void one_lane_leaves(uint32_t* out) {
  if (lane_id() == 9) return;
  syncwarp();
  out[lane_id()] = __ballot_sync(0xffffffffu, 1);
}

// In CUDA a collective waits only for the lanes of the mask that have not exited.
TEST(Collective, DoesNotWaitForExitedLanes) {
  for (uint64_t seed : kOrders) {
    std::vector<uint32_t> out(32);
    EXPECT_EQ(run_on_cpu(one_lane_leaves, 1, dim3(8, 8), {.seed = seed}, out.data()).told(), "ok");
    for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(out[lane], lane == 9 ? 0 : 0xfffffdffu);
  }
}

__global__ void lanes_disagree(int* line) {
  *line = __LINE__ + 1;
  check_quad_agrees(lane_id() == 14 ? 1.0000001f : 1.0f);
}

TEST(Collective, AQuadThatDisagreesIsReported) {
  int line = 0;
  expect_fault(run_on_cpu(lanes_disagree, dim3(1, 1, 2), 32, {}, &line), ATTN_REPORT_DISAGREEMENT, {14, 0, 0},
               line, "lane 14 holds 0x1.000002p+0");
}

__global__ void small_warp(int* line) {
  *line = __LINE__ + 1;
  warp_sum(1.0f);
}

TEST(Collective, AReductionOverMissingLanesIsReported) {
  int line = 0;
  expect_fault(run_on_cpu(small_warp, 1, 40, {}, &line), ATTN_REPORT_DIVERGENCE, {39, 0, 0}, line,
               "less than 32");
}

// A fault leaves nothing behind in the executor.
__global__ void count_lanes(uint32_t* out) { out[threadIdx.x] = ballot(true); }

TEST(Collective, TheNextLaunchIsUnharmed) {
  for (int i = 0; i < 3; ++i) {
    int line = 0;
    EXPECT_EQ(run_on_cpu(small_warp, 1, 40, {}, &line).status, ATTN_FAULT);
    std::vector<uint32_t> out(70);
    EXPECT_EQ(run_on_cpu(count_lanes, 1, 70, {}, out.data()).told(), "ok");
    EXPECT_EQ(out[0], 0xffffffffu);
    EXPECT_EQ(out[69], 0x3fu);
  }
}

}  // namespace
}  // namespace attn
