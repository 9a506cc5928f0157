// CUDA's own words for host compilers: enough for plain __global__ functions to
// run on the executor as they stand. README.md lists what there is.
//
// Threads' coordinates are macros onto the running thread: they are read often,
// and a name costs one load that way. __shared__ is thread_local: legal for
// arrays in a function and for extern ones, and the executor runs a block on one
// OS thread. The rest of the device API is in api.h.
#pragma once

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
};

#define threadIdx (static_cast<const ::simt::Thread*>(::simt::current)->index)
#define blockIdx (static_cast<const ::simt::Thread*>(::simt::current)->geometry->block)
#define blockDim (static_cast<const ::simt::Thread*>(::simt::current)->geometry->block_dim)
#define gridDim (static_cast<const ::simt::Thread*>(::simt::current)->geometry->grid_dim)
#define warpSize 32
