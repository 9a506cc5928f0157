// What the threads that share a row do together, a warp or a block of them, and how they read 16-bit numbers.
#pragma once

#include <cuda_fp16.h>

#include "kernels/attention.h"
#include "reference/cuda/rows.h"

namespace attnfuzz::cuda {

inline constexpr unsigned kAll = 0xffffffffu;
inline constexpr int kWarps = kThreads / 32;

template <bool kBf16>
__device__ inline double number(uint32_t bits) {
  if constexpr (kBf16) return __uint_as_float(bits << 16);
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}

__device__ inline double number_of(int32_t dtype, const void* base, int64_t index) {
  if (dtype == ATTN_F16) return number<false>(static_cast<const uint16_t*>(base)[index]);
  if (dtype == ATTN_BF16) return number<true>(static_cast<const uint16_t*>(base)[index]);
  return static_cast<const float*>(base)[index];
}

struct Sum {
  __device__ double operator()(double a, double b) const { return a + b; }
};
struct Max {
  __device__ double operator()(double a, double b) const { return a > b ? a : b; }
};

template <class Op>
__device__ inline double over_warp(double x, Op op) {
  for (int far = 16; far > 0; far /= 2) x = op(x, __shfl_xor_sync(kAll, x, far));
  return x;
}

// kSize threads: 32, of which a block has several that know nothing of each other, or kThreads.
template <int kThreadsARow>
struct Group {
  static constexpr int kSize = kThreadsARow, kWarps = kSize / 32;
  static constexpr bool kWarp = kSize == 32;
  static_assert(kWarp || kSize == kThreads);
  __device__ static int rank() { return static_cast<int>(threadIdx.x) % kSize; }
  __device__ static int warp() { return rank() / 32; }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static void sync() {
    if constexpr (kWarp)
      __syncwarp();
    else
      __syncthreads();
  }
  // Of all of them, and each sees what the others have written.
  __device__ static bool any(bool mine) {
    if constexpr (!kWarp) return __syncthreads_or(mine);
    __syncwarp();
    return __any_sync(kAll, mine);
  }

  // Of each of N numbers; all threads get the results, in the same bits.
  template <int N, class Op>
  __device__ static void over(double (&x)[N], Op op) {
    if constexpr (kWarp) {
#pragma unroll
      for (int i = 0; i < N; ++i) x[i] = over_warp(x[i], op);
      __syncwarp();
    } else {
      __shared__ double of_warps[N][kWarps];
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const double mine = over_warp(x[i], op);
        if (lane() == 0) of_warps[i][warp()] = mine;
      }
      __syncthreads();
#pragma unroll
      for (int i = 0; i < N; ++i) {
        x[i] = of_warps[i][0];
        for (int w = 1; w < kWarps; ++w) x[i] = op(x[i], of_warps[i][w]);
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

// The first of keys[0, n), ascending, that is not below `bound`.
__device__ inline int first_from(const int32_t* keys, int n, int64_t bound) {
  int low = 0, high = n;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (keys[middle] < bound)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

}  // namespace attnfuzz::cuda
