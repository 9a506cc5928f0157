// Functions for the threads of a row (a warp or a block): they combine numbers of threads, and read numbers.
#pragma once

#include <cuda_fp16.h>

#include <type_traits>

#include "kernels/attention.h"
#include "reference/cuda/rows.h"

namespace attnfuzz::cuda {

inline constexpr unsigned kAll = 0xffffffffu;
inline constexpr int kWarps = kThreads / 32, kMostWarps = kThreadsAlone / 32;

// The format of Q, K and V in memory.
enum class Format { kF16, kBf16, kF32 };
template <Format kFormat>
using Bits = std::conditional_t<kFormat == Format::kF32, uint32_t, uint16_t>;

template <Format kFormat>
__device__ inline double number(uint32_t bits) {
  if constexpr (kFormat == Format::kF32) return __uint_as_float(bits);
  if constexpr (kFormat == Format::kBf16) return __uint_as_float(bits << 16);
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}

// lowered() converts finite numbers by shifts alone and gives 1/kRaise of the number. Multiply it by a
// factor that was multiplied by kRaise, and the product is exact. (A conversion takes the GPU four times as
// long as a multiplication.)
template <Format kFormat>
inline constexpr double kRaise = kFormat == Format::kF32    ? 1
                                 : kFormat == Format::kBf16 ? 0x1p896
                                                            : 0x1p1008;
template <Format kFormat>
__device__ inline double lowered(uint32_t bits) {
  if constexpr (kFormat == Format::kF32) return __uint_as_float(bits);
  const uint64_t high = (bits & 0x8000u) << 16 | (bits & 0x7fffu) << (kFormat == Format::kBf16 ? 13 : 10);
  return __longlong_as_double(static_cast<long long>(high << 32));
}
template <Format kFormat>
__device__ inline bool is_finite_number(uint32_t bits) {
  constexpr uint32_t kExponent = kFormat == Format::kF32    ? 0x7f800000
                                 : kFormat == Format::kBf16 ? 0x7f80
                                                            : 0x7c00;
  return (bits & kExponent) != kExponent;
}

template <Format kFormat>
__device__ inline const Bits<kFormat>* numbers_of(const void* base) {
  return static_cast<const Bits<kFormat>*>(base);
}

__device__ inline double number_of(int32_t dtype, const void* base, int64_t index) {
  if (dtype == ATTN_F16) return number<Format::kF16>(static_cast<const uint16_t*>(base)[index]);
  if (dtype == ATTN_BF16) return number<Format::kBf16>(static_cast<const uint16_t*>(base)[index]);
  return static_cast<const float*>(base)[index];
}

// For numbers that are not NaN; CUDA's max() handles NaN with ten more instructions.
__device__ inline double larger(double a, double b) { return a > b ? a : b; }

__device__ inline bool is_finite(double x) { return x * 0.0 == 0; }

struct Sum {
  __device__ double operator()(double a, double b) const { return a + b; }
};
struct Max {
  __device__ double operator()(double a, double b) const { return larger(a, b); }
};

template <class Op>
__device__ inline double over_warp(double x, Op op) {
  for (int far = 16; far > 0; far /= 2) x = op(x, __shfl_xor_sync(kAll, x, far));
  return x;
}

// One of several independent warps of a block, or a whole block.
enum class Members { kWarp, kBlock };
template <Members kMembers>
struct Group {
  static constexpr bool kWarp = kMembers == Members::kWarp;
  __device__ static int size() { return kWarp ? 32 : static_cast<int>(blockDim.x); }
  __device__ static int warps() { return size() / 32; }
  __device__ static int rank() { return static_cast<int>(threadIdx.x) % size(); }
  __device__ static int warp() { return rank() / 32; }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static void sync() {
    if constexpr (kWarp)
      __syncwarp();
    else
      __syncthreads();
  }
  // True if `mine` is true in any thread. All threads then see what the others have written.
  __device__ static bool any(bool mine) {
    if constexpr (!kWarp) return __syncthreads_or(mine);
    __syncwarp();
    return __any_sync(kAll, mine);
  }

  // The bits that any thread has set.
  __device__ static unsigned bits(unsigned mine) {
    for (int far = 16; far > 0; far /= 2) mine |= __shfl_xor_sync(kAll, mine, far);
    if constexpr (kWarp) {
      __syncwarp();
    } else {
      __shared__ unsigned of_warps[kMostWarps];
      if (lane() == 0) of_warps[warp()] = mine;
      __syncthreads();
      for (int w = 0; w < warps(); ++w) mine |= of_warps[w];
      __syncthreads();
    }
    return mine;
  }

  // Combines each of N numbers over all threads. All threads get the same bits.
  template <int N, class Op>
  __device__ static void over(double (&x)[N], Op op) {
    if constexpr (kWarp) {
#pragma unroll
      for (int i = 0; i < N; ++i) x[i] = over_warp(x[i], op);
      __syncwarp();
    } else {
      __shared__ double of_warps[N][kMostWarps];
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const double mine = over_warp(x[i], op);
        if (lane() == 0) of_warps[i][warp()] = mine;
      }
      __syncthreads();
#pragma unroll
      for (int i = 0; i < N; ++i) {
        x[i] = of_warps[i][0];
        for (int w = 1; w < warps(); ++w) x[i] = op(x[i], of_warps[i][w]);
      }
      __syncthreads();
    }
  }
  template <class Op>
  __device__ static double over(double x, Op op) {
    double one[1] = {x};
    over(one, op);
    return one[0];
  }
};

}  // namespace attnfuzz::cuda
