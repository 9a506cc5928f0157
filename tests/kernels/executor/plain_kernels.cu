// Kernels in plain CUDA for cuda_test.cc, in a separate module: there the
// __shared__ arrays have thread-local memory, which the executor may fill.
#include <cooperative_groups.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <driver_types.h>

#include <cub/cub.cuh>

#include "kernels/primitives/launch.h"
#include "tests/kernels/executor/plain_kernels.h"

namespace {

__global__ void unwritten(float* out) {
  __shared__ float values[64];
  out[blockIdx.x * 64 + threadIdx.x] = values[threadIdx.x];
  __syncthreads();
  values[threadIdx.x] = 1;
}

// Two instantiations have two arrays.
template <int N>
__device__ int next_ticket() {
  __shared__ int ticket;
  if (threadIdx.x == 0) ticket = N;
  __syncthreads();
  return atomicAdd(&ticket, 1);
}

__global__ void tickets(int* out) {
  out[next_ticket<0>()] += 1;
  out[next_ticket<100>()] += 1;
}

__global__ void exchange(int* wrong) {
  const int lane = static_cast<int>(threadIdx.x % warpSize);
  const auto expect = [&](bool right) {
    if (!right) atomicAdd(wrong, 1);
  };
  const unsigned all = 0xffffffffu;
  expect(__shfl_sync(all, lane, 3) == 3);
  expect(__shfl_sync(all, lane, 3, 8) == lane / 8 * 8 + 3);
  expect(__shfl_up_sync(all, lane, 1) == (lane ? lane - 1 : 0));
  expect(__shfl_up_sync(all, lane, 3, 4) == (lane % 4 == 3 ? lane - 3 : lane));
  expect(__shfl_down_sync(all, lane, 2) == (lane < 30 ? lane + 2 : lane));
  expect(__shfl_xor_sync(all, 2.5 * lane, 5) == 2.5 * (lane ^ 5));
  expect(__ballot_sync(all, lane > 29) == 0xc0000000u);
  expect(__any_sync(all, lane == 4) == 1 && __any_sync(all, 0) == 0);
  expect(__all_sync(all, 1) == 1 && __all_sync(all, lane != 4) == 0);
  // The two halves of a warp are used separately.
  const unsigned half_mask = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  if (lane < 16) {
    expect(__ballot_sync(half_mask, 1) == half_mask);
    __syncwarp(half_mask);
  } else {
    expect(__all_sync(half_mask, 1) == 1);
    expect(__shfl_sync(half_mask, lane, 20) == 20);
  }
  __syncwarp();
}

__global__ void numbers(int* wrong) {
  const auto expect = [&](bool right) {
    if (!right) atomicAdd(wrong, 1);
  };
  __half h = __float2half(1.0f);
  h += __float2half(0.0009765625f);
  expect(__half2float(h) == 1.0009765625f);
  expect(__half2float(__hadd(h, __float2half(0.00048828125f))) == 1.001953125f);  // a tie, to even
  const __nv_bfloat16 b = __float2bfloat16(1.00390625f);                          // a tie, to even
  expect(__bfloat162float(b) == 1.0f);
  expect(__half22float2(__floats2half2_rn(1.5f, 70000.0f)).y == INFINITY);
  const float4 v = make_float4(1, 2, 3, 4);
  expect(v.w == 4 && sizeof(v) == 16 && alignof(float4) == 16);
  expect(__float_as_int(1.0f) == 0x3f800000 && __popc(0xf0f0u) == 8 && __clz(1) == 31 && __ffs(8) == 4);
  expect(max(3, 5) == 5 && min(2.0f, 1.0f) == 1.0f);
  const auto e4m3 = [](float x) { return static_cast<float>(__nv_fp8_e4m3(x)); };
  const auto e5m2 = [](float x) { return static_cast<float>(__nv_fp8_e5m2(x)); };
  expect(e4m3(17.0f) == 16 && e4m3(19.0f) == 20 && e4m3(-1e9f) == -448 && e4m3(0.001f) == 0.001953125f);
  expect(e5m2(9.0f) == 8 && e5m2(11.0f) == 12 && e5m2(INFINITY) == 57344 && isnan(e5m2(NAN)) && isnan(e4m3(NAN)));
  for (int bits = 0; bits < 256; ++bits) {
    const auto byte = static_cast<unsigned char>(bits);
    const float four = __nv_fp8_e4m3::decode(byte), five = __nv_fp8_e5m2::decode(byte);
    expect(isnan(four) || __nv_fp8_e4m3::encode(four) == byte);
    expect(!isfinite(five) || __nv_fp8_e5m2::encode(five) == byte);
  }
  const __nv_fp8x2_storage_t two = __nv_cvt_halfraw2_to_fp8x2(__floats2half2_rn(1.0f, 19.0f), __NV_SATFINITE, __NV_E4M3);
  expect(two == 0x5a38 && __half22float2(__nv_cvt_fp8x2_to_halfraw2(two, __NV_E4M3)).y == 20);
  expect(__half2float(__nv_cvt_fp8_to_halfraw(0x38, __NV_E4M3)) == 1);
  expect(__nv_cvt_float_to_fp8(-464.0f, __NV_NOSAT, __NV_E4M3) == 0xfe);  // a tie, to even
  expect(__nv_cvt_float_to_fp8(-465.0f, __NV_NOSAT, __NV_E4M3) == 0xff);
  expect(__nv_cvt_float_to_fp8(61440.0f, __NV_NOSAT, __NV_E5M2) == 0x7c);  // likewise
  expect(static_cast<float4>(__nv_fp8x4_e4m3(v)).z == 3 && static_cast<float2>(__nv_fp8x2_e5m2(make_float2(7, 8))).y == 8);
  expect(rsqrtf(4.0f) == 0.5f && fabsf(__expf(1.0f) - 2.7182818f) < 1e-6f);
}

// A block of (32, 2) threads. The threads that CUB promises a result get it. All others get NaN, or 0 as an
// int.
__global__ void reductions(int* wrong) {
  const auto expect = [&](bool right) {
    if (!right) atomicAdd(wrong, 1);
  };
  using Block = cub::BlockReduce<float, 32, cub::BLOCK_REDUCE_WARP_REDUCTIONS, 2>;
  using Warp = cub::WarpReduce<float>;
  using Eighth = cub::WarpReduce<int, 4>;
  using Scan = cub::BlockScan<int, 32, cub::BLOCK_SCAN_RAKING, 2>;
  __shared__ Block::TempStorage of_block;
  __shared__ Warp::TempStorage of_warp[2];
  __shared__ Eighth::TempStorage of_eighth[16];
  __shared__ Scan::TempStorage of_scan;
  const int me = static_cast<int>(threadIdx.x + 32 * threadIdx.y), lane = me % 32;
  const float largest = Block(of_block).Reduce(static_cast<float>(me * 7 % 64), cub::Max());
  expect(me == 0 ? largest == 63 : largest != largest);
  __syncthreads();
  const float of_ten = Block(of_block).Sum(1.0f, 10);
  expect(me == 0 ? of_ten == 10 : of_ten != of_ten);
  const float sum = Warp(of_warp[threadIdx.y]).Sum(static_cast<float>(me));
  expect(lane == 0 ? sum == 496 + 1024 * (me / 32) : sum != sum);
  const float of_five = Warp(of_warp[threadIdx.y]).Reduce(static_cast<float>(lane), cub::Max(), 5);
  expect(lane == 0 ? of_five == 4 : of_five != of_five);
  const int four = Eighth(of_eighth[me / 4]).Reduce(me, cub::Min());
  expect(four == (me % 4 == 0 ? me : 0));
  int before = -1, all = -1, with = -1;
  Scan(of_scan).ExclusiveSum(me, before, all);
  expect(before == me * (me - 1) / 2 && all == 64 * 63 / 2);
  __syncthreads();
  Scan(of_scan).InclusiveSum(me, with);
  expect(with == me * (me + 1) / 2);
  namespace cg = cooperative_groups;
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(cg::this_thread_block());
  expect(static_cast<int>(warp.thread_rank()) == lane && warp.size() == 32);
}

// 20 KiB of static shared memory in a kernel, or in a function that it calls; and dynamic shared memory.
__device__ __attribute__((noinline)) float through(float x) {
  __shared__ float fixed[5120];
  fixed[threadIdx.x] = x;
  __syncthreads();
  return fixed[blockDim.x - 1 - threadIdx.x];
}
__global__ void calls(float* out) {
  out[threadIdx.x] = through(static_cast<float>(threadIdx.x)) + static_cast<float*>(simt::dynamic_shared(simt::Place::now()))[0];
}
__global__ void mixed(float* out) {
  __shared__ float fixed[5120];
  fixed[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] =
      fixed[blockDim.x - 1 - threadIdx.x] + static_cast<float*>(simt::dynamic_shared(simt::Place::now()))[0];
}
template <class T>
__global__ void deduced(T* out) {
  out[threadIdx.x] = 1;
}
__global__ void bounded(float* out) {
  simt::check_launch_bounds(64, simt::Place::now());
  out[threadIdx.x] = 1;
}

__global__ void lock(int* mutex, int* counter) {
  while (atomicCAS(mutex, 0, 1) != 0) {
  }
  const int before = *counter;
  __syncwarp(1u << threadIdx.x % 32);
  *counter = before + 1;
  atomicExch(mutex, 0);
}

}  // namespace

attn_status run_unwritten(const attn_env* env, float* out) {
  return attn::launch(unwritten, dim3(2), dim3(64), 0, env, out);
}
attn_status run_tickets(const attn_env* env, int* out) {
  return attn::launch(tickets, dim3(1), dim3(64), 0, env, out);
}
attn_status run_exchange(const attn_env* env, int* wrong) {
  return attn::launch(exchange, dim3(1), dim3(64), 0, env, wrong);
}
attn_status run_numbers(const attn_env* env, int* wrong) {
  return attn::launch(numbers, dim3(1), dim3(1), 0, env, wrong);
}
attn_status run_lock(const attn_env* env, int* mutex, int* counter) {
  return attn::launch(lock, dim3(2), dim3(96), 0, env, mutex, counter);
}
attn_status run_reductions(const attn_env* env, int* wrong) {
  return attn::launch(reductions, dim3(1), dim3(32, 2), 0, env, wrong);
}
attn_status run_mixed(const attn_env* env, size_t bytes, bool calls_function, float* out) {
  return attn::launch(calls_function ? calls : mixed, dim3(1), dim3(64), bytes, env, out);
}
bool may_have(size_t bytes) {
  const bool done = cudaFuncSetAttribute(mixed, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(bytes)) == cudaSuccess;
  cudaFuncAttributes attributes;
  cudaFuncGetAttributes(&attributes, mixed);
  return done && attributes.sharedSizeBytes == 20480 &&
         attributes.maxDynamicSharedSizeBytes == static_cast<int>(bytes);
}
// As the translator writes deduced<<<1, 64, bytes>>>(out).
attn_status run_deduced(const attn_env* env, size_t bytes, bool asks, float* out) {
  simt::HostCall call(*env);
  if (asks) cudaFuncSetAttribute(deduced<float>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  simt::launch_of([&](auto use) -> decltype(use(deduced)) { return use(deduced); },
                  [&](auto&... given) -> decltype(static_cast<void>(deduced(given...))) { deduced(given...); },
                  simt::simt_here(), 1, 64, bytes)(out);
  return call.end();
}
attn_status run_bounded(const attn_env* env, int threads, float* out) {
  return attn::launch(bounded, dim3(1), dim3(static_cast<unsigned>(threads)), 0, env, out);
}
// cuBLAS is column-major, so the factors of a row-major A B^T are swapped. A is (2 x 3) and B is (4 x 3), in a batch
// of two: once in fp32, once in fp16.
int wrong_products() {
  cublasHandle_t handle = nullptr;
  float a[12], b[24], c[16], due[16];
  half a16[12], b16[24], c16[16];
  for (int i = 0; i < 12; ++i) a[i] = static_cast<float>(i % 5), a16[i] = __float2half(a[i]);
  for (int i = 0; i < 24; ++i) b[i] = static_cast<float>(i % 7), b16[i] = __float2half(b[i]);
  for (int i = 0; i < 16; ++i) {
    c[i] = 1, c16[i] = __float2half(1), due[i] = 3;
    for (int k = 0; k < 3; ++k) due[i] += 2 * a[i / 8 * 6 + i % 8 / 4 * 3 + k] * b[i / 8 * 12 + i % 4 * 3 + k];
  }
  const float alpha = 2, beta = 3;
  const bool done =
      cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS &&
      cublasSgemmStridedBatched(handle, CUBLAS_OP_T, CUBLAS_OP_N, 4, 2, 3, &alpha, b, 3, 12, a, 3, 6, &beta, c, 4, 8,
                                2) == CUBLAS_STATUS_SUCCESS &&
      cublasGemmStridedBatchedEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, 4, 2, 3, &alpha, b16, CUDA_R_16F, 3, 12, a16,
                                 CUDA_R_16F, 3, 6, &beta, c16, CUDA_R_16F, 4, 8, 2,
                                 CUBLAS_COMPUTE_32F) == CUBLAS_STATUS_SUCCESS &&
      cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS;
  int wrong = done ? 0 : 1;
  for (int i = 0; i < 16; ++i) wrong += c[i] != due[i] || __half2float(c16[i]) != due[i];
  return wrong;
}
