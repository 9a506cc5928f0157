// Kernels in plain CUDA for cuda_test.cc, in a module of their own: there,
// __shared__ arrays have thread-local memory that the executor may fill.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/primitives/launch.h"
#include "tests/simt/plain_kernels.h"

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
  // Halves of a warp on their own.
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
  expect(rsqrtf(4.0f) == 0.5f && fabsf(__expf(1.0f) - 2.7182818f) < 1e-6f);
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
