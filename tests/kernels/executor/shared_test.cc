// Tests the initial content of shared memory, its limits and its red zones.
#include "kernels/primitives/shared.h"

#include <cmath>

#include "kernels/primitives/barrier.h"
#include "kernels/primitives/types.h"
#include "tests/kernels/executor/harness.h"

namespace attn {
namespace {

__global__ void read_unwritten(float* out) {
  SharedArena arena;
  float* f32 = arena.carve<float>(5);
  F16* f16 = arena.carve<F16>(3);
  BF16* bf16 = arena.carve<BF16>(64, 1024);
  out[0] = f32[4];
  out[1] = to_float(f16[2]);
  out[2] = to_float(bf16[63]);
  out[3] = static_cast<float>(reinterpret_cast<uintptr_t>(bf16) % 1024);
  f32[4] = 1, f16[2] = {0}, bf16[63] = {0};
}

TEST(Shared, StartsAsNaNInEveryBlock) {
  float out[4] = {};
  for (unsigned blocks : {1u, 2u}) {
    EXPECT_EQ(run_on_cpu(read_unwritten, blocks, 1, {.shared = 2048}, out).told(), "ok");
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(out[i])) << i;
    EXPECT_EQ(out[3], 0);
  }
}

__global__ void where_dynamic_shared_lies(uint32_t* out) {
  const auto* const array = static_cast<float*>(simt::dynamic_shared(simt::Place::now()));
  out[0] = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(array) % 1024);
  out[1] = simt::shared_offset(array, simt::Place::now()) % 1024;
}

// A kernel may swizzle the address of shared memory, so its alignment matters.
TEST(Shared, TheDynamicArrayBeginsWhereAGpuPutsIt) {
  uint32_t out[2] = {1, 1};
  EXPECT_EQ(run_on_cpu(where_dynamic_shared_lies, 1, 32, {.shared = 48}, out).told(), "ok");
  EXPECT_EQ(out[0], 0u);
  EXPECT_EQ(out[1], 0u);
}

__global__ void carve_two(int first, int second, int* line) {
  SharedArena arena;
  arena.carve<float>(first);
  *line = __LINE__ + 1;
  arena.carve<float>(second, 128);
}

TEST(Shared, BytesOnTheHostSufficeAndNoMore) {
  int line = 0;
  for (int first : {1, 31, 32, 33}) {
    const size_t bytes = shared_bytes<float>(first) + shared_bytes<float>(7, 128);
    EXPECT_EQ(run_on_cpu(carve_two, 1, 64, {.shared = bytes}, first, 7, &line).told(), "ok");
  }
  const size_t exact = 128 + 7 * 4;
  EXPECT_EQ(run_on_cpu(carve_two, 1, 64, {.shared = exact}, 5, 7, &line).told(), "ok");
  expect_fault(run_on_cpu(carve_two, 1, 64, {.shared = exact - 1}, 5, 7, &line), ATTN_REPORT_SHARED, {0, 0, 0},
               line, "28 bytes at offset 128 of shared memory: the launch gave 155");
}

__global__ void write_at(int index, int* line) {
  SharedArena arena;
  *line = __LINE__ + 1;
  char* array = arena.carve<char>(100);
  arena.carve<char>(100);
  if (threadIdx.x == 3) array[index] = 7;
}

TEST(Shared, AWriteToARedZoneIsReported) {
  int line = 0;
  for (int index : {0, 99}) EXPECT_EQ(run_on_cpu(write_at, 1, 32, {.shared = 256}, index, &line).told(), "ok");
  expect_fault(run_on_cpu(write_at, 2, 32, {.shared = 256}, 100, &line), ATTN_REPORT_SHARED, {0, 0, 0}, line,
               "a write 0 bytes past the end of array 0");
  expect_fault(run_on_cpu(write_at, 2, 32, {.shared = 256}, 131, &line), ATTN_REPORT_SHARED, {0, 0, 0}, line,
               "31 bytes past the end");
  expect_fault(run_on_cpu(write_at, 2, 32, {.shared = 256}, -1, &line), ATTN_REPORT_SHARED, {0, 0, 0}, line,
               "1 bytes before array 0");
  EXPECT_EQ(run_on_cpu(write_at, 1, 32, {.shared = 256}, 99, &line).told(), "ok") << "must not stay";
}

// Array 1 begins 256 bytes after array 0, and its redzone ends 484 bytes after that.
TEST(Shared, AWriteBehindTheLastRedZoneIsReported) {
  int line = 0;
  for (int index : {484, 500, 3000}) {
    expect_told(run_on_cpu(write_at, 2, 32, {.shared = 256}, index, &line), ATTN_REPORT_SHARED,
                (std::to_string(index - 356) + " bytes past the end of shared memory (256 bytes)").c_str());
    EXPECT_EQ(run_on_cpu(write_at, 2, 32, {.shared = 256}, 99, &line).told(), "ok") << "must not stay";
  }
  EXPECT_DEATH(run_on_cpu(write_at, 1, 32, {.shared = 256}, 1 << 16, &line), "");
  EXPECT_EQ(run_on_cpu(carve_two, 1, 32, {.shared = 200'000}, 40'000, 7, &line).told(), "ok");
  EXPECT_DEATH(run_on_cpu(write_at, 1, 32, {.shared = 256}, 1 << 16, &line), "")
      << "also after a larger launch";
}

__global__ void carve_by_warp(int* line) {
  SharedArena arena;
  *line = __LINE__ + 1;
  arena.carve<float>(threadIdx.x < 32 ? 16 : 32);
}

TEST(Shared, ThreadsThatCarveDifferentlyAreReported) {
  int line = 0;
  expect_fault(run_on_cpu(carve_by_warp, 1, 64, {.shared = 1024}, &line), ATTN_REPORT_SHARED, {32, 0, 0}, line,
               "128 bytes here, and 64 in another thread");
}

}  // namespace
}  // namespace attn
