// CUDA's keywords and built-in variables for host compilers, so that plain __global__ functions run on the
// executor unchanged. kernels/cuda_source/README.md lists what is supported.
//
// The coordinates of a thread are variables that the executor sets when it switches to another thread
// (threads/scheduler.cc). They follow C++'s rules for names: a variable of the host may be called blockDim, and
// `config.blockDim` is a member. __shared__ is thread_local, which is legal for arrays in a function and for
// extern arrays; it works because the executor runs a block on one OS thread. The rest of the device API is in
// kernels/cuda_source/cuda/api.h.
#pragma once

#include <type_traits>

#include "kernels/executor/executor.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ thread_local

using uint3 = simt::Index;

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1)
      : x(x_size), y(y_size), z(z_size) {}
  template <class T>
    requires std::is_same_v<T, uint3>
  constexpr dim3(const T& sizes) : x(sizes.x), y(sizes.y), z(sizes.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

// const, because a CUDA thread has the same values for all its life; a compiler may keep them in registers.
#define SIMT_COORDINATE(T, name) \
  SIMT_EXPORT extern constinit thread_local const T name __attribute__((tls_model("initial-exec")))
SIMT_COORDINATE(uint3, threadIdx);
SIMT_COORDINATE(uint3, blockIdx);
SIMT_COORDINATE(dim3, blockDim);
SIMT_COORDINATE(dim3, gridDim);
#undef SIMT_COORDINATE
#define warpSize 32
