// Tests CUDA's own names on the executor: inline PTX, 16-bit arithmetic, cooperative groups, barriers with a
// vote.
#include <bit>
#include <cmath>

#include "kernels/cuda_source/cuda/cooperative_groups.h"
#include "kernels/cuda_source/cuda/pipeline.h"
#include "kernels/cuda_source/cuda/ptx/ptx.h"
#include "kernels/cuda_source/runtime.h"
#include "kernels/cuda_source/cuda/wmma.h"
#include "tests/kernels/executor/harness.h"

namespace attn {
namespace {

namespace ptx = simt::ptx;
using simt::Place;

template <ptx::Text kText, class... In>
uint32_t word(In... in) {
  uint32_t result = 0;
  ptx::run<kText>(Place::now(), ptx::out(result), ptx::in(in)...);
  return result;
}
template <ptx::Text kText, class... In>
float number(In... in) {
  float result = 0;
  ptx::run<kText>(Place::now(), ptx::out(result), ptx::in(in)...);
  return result;
}

__global__ void inline_ptx(int* wrong) {
  const auto expect = [&](bool right, int which) {
    if (!right && *wrong == 0) *wrong = which;
  };
  expect(word<"lop3.b32 %0, %1, %2, %3, 0x96;">(0xF0F0u, 0xCCCCu, 0xAAAAu) == (0xF0F0u ^ 0xCCCCu ^ 0xAAAAu), 1);
  expect(word<"lop3.b32 %0, %1, %2, %3, 0xe8;">(12u, 10u, 6u) == ((12u & 10u) | (12u & 6u) | (10u & 6u)), 2);
  expect(word<"bfe.u32 %0, %1, 8, 4;">(0x12345678u) == 6, 3);
  expect(word<"bfe.s32 %0, %1, 4, 4;">(0x000000F0u) == 0xFFFFFFFFu, 4);
  expect(word<"bfi.b32 %0, %1, %2, 8, 8;">(0xABu, 0x11223344u) == 0x1122AB44u, 5);
  expect(word<"prmt.b32 %0, %1, %2, 0x5410;">(0x33221100u, 0x77665544u) == 0x55441100u, 6);
  expect(word<"{ .reg .pred p; setp.gt.s32 p, %1, %2; selp.b32 %0, 1, 2, p; }">(-3, 4) == 2, 7);
  expect(word<"{ .reg .pred p; setp.ne.b32 p, %1, 0; mov.u32 %0, 5; @p mov.u32 %0, 9; }">(1u) == 9, 8);
  expect(word<"{ .reg .pred p; setp.ne.b32 p, %1, 0; mov.u32 %0, 5; @!p mov.u32 %0, 9; }">(1u) == 5, 9);
  expect(word<"shr.s32 %0, %1, 4;">(-64) == static_cast<uint32_t>(-4), 10);
  expect(word<"mov.b32 %0, {%1, %2};">(uint16_t{0x1234}, uint16_t{0x5678}) == 0x56781234u, 11);
  uint16_t low = 0, high = 0;
  ptx::run<"mov.b32 {%0, %1}, %2;">(Place::now(), ptx::out(low), ptx::out(high), ptx::in(0x56781234u));
  expect(low == 0x1234 && high == 0x5678, 12);
  expect(word<"mov.u32 %0, %%laneid;">() == threadIdx.x % 32, 13);
  expect(std::fabs(number<"ex2.approx.ftz.f32 %0, %1;">(3.0f) - 8) < 1e-5f, 14);
  expect(number<"fma.rn.f32 %0, %1, %2, %3;">(2.0f, 3.0f, 4.0f) == 10, 15);
  expect(number<"max.f32 %0, %1, %2;">(NAN, 3.0f) == 3, 16);
  expect(std::isnan(number<"max.NaN.f32 %0, %1, %2;">(NAN, 3.0f)), 17);
  expect(word<"cvt.rn.f16x2.f32 %0, %1, %2;">(2.0f, 1.0f) == 0x40003C00u, 18);
  expect(word<"fma.rn.f16x2 %0, %1, %2, %3;">(0x40003C00u, 0x40004000u, 0x3C003C00u) == 0x45004200u, 19);
  uint64_t wide = 0;
  ptx::run<"mul.wide.u32 %0, %1, %2;">(Place::now(), ptx::out(wide), ptx::in(0x80000000u), ptx::in(4u));
  expect(wide == uint64_t{1} << 33, 20);
  float accumulated = 1;
  ptx::run<"add.f32 %0, %0, %1;">(Place::now(), ptx::inout(accumulated), ptx::in(2.0f));
  expect(accumulated == 3, 21);
  const uint4 four = {1, 2, 3, 4};
  uint4 loaded = {};
  ptx::run<"ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];">(
      Place::now(), ptx::out(loaded.x), ptx::out(loaded.y), ptx::out(loaded.z), ptx::out(loaded.w),
      ptx::in(&four));
  expect(loaded.x == 1 && loaded.w == 4, 22);
  expect(word<"shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;">(threadIdx.x) == (threadIdx.x ^ 1), 23);
  uint64_t lower = 0, upper = 0;
  ptx::run<"{ .reg .b128 whole; mov.b128 whole, {%1, %2}; st.global.L1::no_allocate.b128 [%0], whole; }">(
      Place::now(), ptx::in(&loaded), ptx::in(uint64_t{7} << 32 | 6), ptx::in(uint64_t{9} << 32 | 8));
  ptx::run<"{ .reg .b128 whole; ld.global.b128 whole, [%2]; mov.b128 {%0, %1}, whole; }">(
      Place::now(), ptx::out(lower), ptx::out(upper), ptx::in(&loaded));
  expect(loaded.x == 6 && loaded.y == 7 && loaded.w == 9, 24);
  expect(lower == (uint64_t{7} << 32 | 6) && upper == (uint64_t{9} << 32 | 8), 25);
}

TEST(Names, InlinePtxMeansWhatItsManualSays) {
  for (uint64_t seed : kOrders) {
    int wrong = 0;
    EXPECT_EQ(run_on_cpu(inline_ptx, 1, 32, {.seed = seed}, &wrong).told(), "ok");
    EXPECT_EQ(wrong, 0);
  }
}

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
