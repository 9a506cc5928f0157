// Tests CUDA's own names on the executor: 16-bit arithmetic, conversions, cooperative groups, barriers with a
// vote, WMMA. ptx_test.cc tests inline PTX.
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/cuda_source/cuda/cooperative_groups.h"
#include "kernels/cuda_source/cuda/pipeline.h"
#include "kernels/cuda_source/cuda/wmma.h"
#include "kernels/cuda_source/runtime.h"
#include "tests/kernels/executor/harness.h"

namespace attn {
namespace {

using simt::Place;

__global__ void sixteen_bits(int* wrong) {
  const auto expect = [&](bool right, int which) {
    if (!right && *wrong == 0) *wrong = which;
  };
  const half2 a = make_half2(__float2half(1.5f), __float2half(-2.0f)), b = __float2half2_rn(2.0f);
  expect(__low2float(a + b) == 3.5f && __high2float(__hadd2(a, b)) == 0.0f, 1);
  expect(__high2float(__hfma2(a, b, b)) == -2.0f && __low2float(__hmul2(a, b)) == 3.0f, 2);
  expect(__hgt(__low2half(a), __high2half(a)) && !__hisnan(__low2half(a)), 3);
  expect(__hisnan(__ushort_as_half(0x7E00)) && __half_as_ushort(__float2half(1.0f)) == 0x3C00, 4);
  expect(__low2float(__hmax2(a, b)) == 2.0f && __half2float(hexp(__float2half(0.0f))) == 1.0f, 5);
  const half2 joined = __halves2half2(__low2half(b), __high2half(a));
  expect(__low2float(joined) == 2.0f && __high2float(joined) == -2.0f, 6);
  expect(__half22float2(__float22half2_rn(make_float2(1.0f, 2.0f))).y == 2.0f, 7);
  expect(float(__hmul(nv_bfloat16(3.0f), nv_bfloat16(0.5f))) == 1.5f, 8);
  expect(
      __saturatef(2.0f) == 1.0f && __umulhi(0x80000000u, 4u) == 2u && __dp4a(0x01010101, 0x01020304, 5) == 15,
      9);
  expect(rsqrt(4.0f) == 0.5f && make_ushort4(1, 2, 3, 4).w == 4 && make_longlong2(1, 2).y == 2, 10);
  expect(__reduce_add_sync(~0u, threadIdx.x % 32) == 496 && __match_any_sync(~0u, threadIdx.x % 2) != ~0u, 11);
  expect(__syncthreads_or(threadIdx.x == 40) == 1 && __syncthreads_count(threadIdx.x < 10) == 10, 12);
  expect(__syncthreads_and(1) == 1 && __syncthreads_and(threadIdx.x != 3) == 0, 13);
  const auto tile = cooperative_groups::tiled_partition<8>(cooperative_groups::this_thread_block());
  expect(cooperative_groups::reduce(tile, 1, cooperative_groups::plus<int>()) == 8, 14);
  expect(tile.meta_group_rank() == threadIdx.x / 8 && tile.shfl(threadIdx.x, 3) == threadIdx.x / 8 * 8 + 3, 15);
  expect(tile.ballot(tile.thread_rank() == 2) == 4u && __activemask() == ~0u, 16);
  float x[4] = {1, 2, 3, 4};
  __stcs(&x[0], __ldcs(&x[1]));
  expect(x[0] == 2 && CUDART_INF_F > 1e38f, 17);
  const auto warp = cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());
  const auto quad = cooperative_groups::tiled_partition<4>(warp);
  expect(quad.meta_group_rank() == threadIdx.x % 32 / 4 && quad.meta_group_size() == 8, 18);
  const cooperative_groups::thread_block_tile<4> any_quad = quad;
  const cooperative_groups::thread_block_tile<8> any_tile = tile;
  expect(any_quad.meta_group_rank() == quad.meta_group_rank() && any_quad.meta_group_size() == 8, 19);
  expect(any_tile.meta_group_rank() == threadIdx.x / 8 && any_tile.meta_group_size() == 8, 20);
}

TEST(Names, ConversionsClampLikeCuda) {
  constexpr int kMost = std::numeric_limits<int>::max(), kLeast = std::numeric_limits<int>::min();
  EXPECT_EQ(__float2int_rn(1e10f), kMost);
  EXPECT_EQ(__float2int_rz(INFINITY), kMost);
  EXPECT_EQ(__float2int_rd(-1e10f), kLeast);
  EXPECT_EQ(__float2int_ru(NAN), 0);
  EXPECT_EQ(__float2int_rn(2147483520.0f), 2147483520);
  EXPECT_EQ(__float2int_rn(-2.5f), -2);
  EXPECT_EQ(__float2int_rd(-2.5f), -3);
  EXPECT_EQ(__float2int_ru(-2.5f), -2);
  EXPECT_EQ(__float2uint_rn(-1.0f), 0u);
  EXPECT_EQ(__float2uint_rn(1e10f), ~0u);
  EXPECT_EQ(__float2uint_rz(3e9f), 3000000000u);
  EXPECT_EQ(__float2uint_ru(NAN), 0u);
  EXPECT_EQ(__half2int_rz(__float2half(INFINITY)), kMost);
  EXPECT_EQ(__half2int_rn(__float2half(NAN)), 0);
  EXPECT_EQ(__bfloat162int_rn(__float2bfloat16(-1e30f)), kLeast);
}

TEST(Names, RoundingToTf32KeepsWhatIsNoNumber) {
  using nvcuda::wmma::__float_to_tf32;
  for (uint32_t poison : {~0u, 0x7FFFFFFFu, 0xFF800001u, 0x7FFFF000u})
    EXPECT_TRUE(std::isnan(__float_to_tf32(std::bit_cast<float>(poison)))) << poison;
  EXPECT_EQ(__float_to_tf32(-INFINITY), -INFINITY);
  EXPECT_EQ(__float_to_tf32(0x1.ffcp127f), 0x1.ffcp127f);
  EXPECT_EQ(__float_to_tf32(0x1.fffffep127f), INFINITY);
  EXPECT_EQ(__float_to_tf32(-(1 + 0x1p-11f)), -(1 + 0x1p-10f)) << "ties go away from 0";
  EXPECT_EQ(__float_to_tf32(1 + 0x1p-12f), 1);
}

TEST(Names, ArithmeticAndGroupsAreCuda) {
  for (uint64_t seed : kOrders) {
    int wrong = 0;
    EXPECT_EQ(run_on_cpu(sixteen_bits, 1, 64, {.seed = seed}, &wrong).told(), "ok");
    EXPECT_EQ(wrong, 0);
  }
}

// Checks __activemask() in a branch, while a lane polls for the others, and after some lanes have exited.
__global__ void ways(int* wrong, unsigned* flag, unsigned* count) {
  const auto expect = [&](bool right, int which) {
    if (!right && *wrong == 0) *wrong = which;
  };
  const unsigned lane = threadIdx.x % 32;
  expect(__activemask() == ~0u, 1);
  if (lane < 5) {
    const auto group = cooperative_groups::coalesced_threads();
    expect(group.size() == 5 && group.thread_rank() == lane && group.shfl(lane, 3) == 3, 2);
  } else if (lane % 2 == 1) {
    expect(__activemask() == (0xaaaaaaaau & ~31u), 3);
  }
  if (lane == 31) {
    while (atomicCAS(&flag[threadIdx.x / 32], 1u, 2u) == 0) {
    }
  } else {
    const auto group = cooperative_groups::coalesced_threads();
    group.sync();
    if (group.thread_rank() == 0) {
      atomicAdd(count, group.size());
      atomicExch(&flag[threadIdx.x / 32], 1u);
    }
  }
  if (lane >= 20) return;
  expect(__activemask() == 0xfffffu, 4);
}

TEST(Names, ActivemaskNamesTheLanesOfABranch) {
  for (uint64_t seed : kOrders) {
    int wrong = 0;
    unsigned flag[2] = {}, count = 0;
    EXPECT_EQ(run_on_cpu(ways, 1, 64, {.seed = seed}, &wrong, flag, &count).told(), "ok");
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(count, 62u);
  }
}

// C = A B of 16x16x16, with A[i][k] = i + k, B[k][j] = k == j.
__global__ void wmma_product(float* out) {
  using namespace nvcuda;
  half* const shared = static_cast<half*>(simt::dynamic_shared(Place::now()));
  for (int i = static_cast<int>(threadIdx.x); i < 256; i += 32) {
    shared[i] = __float2half(static_cast<float>(i / 16 + i % 16));
    shared[256 + i] = __float2half(i / 16 == i % 16 ? 1.0f : 0.0f);
  }
  __syncwarp();
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::fill_fragment(c, 0.5f);
  wmma::load_matrix_sync(a, shared, 16);
  wmma::load_matrix_sync(b, shared + 256, 16);
  wmma::mma_sync(c, a, b, c);
  wmma::store_matrix_sync(out, c, 16, wmma::mem_row_major);
}

TEST(Names, AWmmaProductIsRight) {
  for (uint64_t seed : all_schedules()) {
    alignas(32) float out[256];
    ASSERT_EQ(run_on_cpu(wmma_product, 1, 32, {.seed = seed, .shared = 1024}, out).told(), "ok");
    for (int i = 0; i < 256; ++i) ASSERT_EQ(out[i], static_cast<float>(i / 16 + i % 16) + 0.5f);
  }
}

// C = A B of 16x16x8 in TF32. All elements of A are `a`, and all of B are 1.
__global__ void tf32_product(float a, float* out) {
  using namespace nvcuda;
  wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> factor;
  wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> ones;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> c;
  wmma::fill_fragment(factor, a);
  wmma::fill_fragment(ones, 1.0f);
  wmma::fill_fragment(c, 0.0f);
  wmma::mma_sync(c, factor, ones, c);
  wmma::store_matrix_sync(out, c, 16, wmma::mem_row_major);
}

// A kernel must round its factors. A tensor core ignores the bits that TF32 lacks.
TEST(Names, ATf32ProductTruncatesFactorsThatAreNotRounded) {
  alignas(32) float out[256];
  for (uint64_t seed : all_schedules()) {
    for (float a : {1 + 0x1p-20f, 1 + 0x1.ffep-11f, 1.0f}) {
      ASSERT_EQ(run_on_cpu(tf32_product, 1, 32, {.seed = seed}, a, out).told(), "ok");
      for (float sum : out) ASSERT_EQ(sum, 8);
    }
    ASSERT_EQ(run_on_cpu(tf32_product, 1, 32, {.seed = seed}, std::bit_cast<float>(0x7F800001u), out).told(),
              "ok");
    for (float sum : out) ASSERT_TRUE(std::isnan(sum));
  }
}

TEST(Names, ScratchMemoryIsGuarded) {
  Outcome run{};
  attn_env env{};
  env.size = sizeof env;
  env.report = keep_report;
  env.user = &run;
  {
    simt::HostCall call(env);
    char* x = nullptr;
    ASSERT_EQ(cudaMalloc(&x, 100), cudaSuccess);
    x[100] = 1;
    EXPECT_EQ(cudaFree(x), cudaSuccess);
    EXPECT_EQ(call.end(), ATTN_FAULT);
    EXPECT_NE(run.told().find("what lies around 100 bytes of cudaMalloc was written"), std::string::npos);
  }
  run.reports.clear();
  {
    simt::HostCall call(env);
    float* x = nullptr;
    cudaMalloc(&x, 64);
    EXPECT_TRUE(std::isnan(x[0]));
    EXPECT_EQ(call.end(), ATTN_FAULT);
    EXPECT_NE(run.told().find("1 arrays of cudaMalloc (64 bytes) were not freed"), std::string::npos)
        << run.told();
  }
  run.reports.clear();
  simt::HostCall call(env);
  int local = 0;
  EXPECT_NE(cudaFree(&local), cudaSuccess);
  EXPECT_NE(run.told().find("which is not of cudaMalloc"), std::string::npos);
}

}  // namespace
}  // namespace attn
