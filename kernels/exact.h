// Put before each CUDA source of a kernel that is EXACT (cmake/AttnfuzzKernel.cmake): an atomicAdd of
// floating-point numbers adds in the order in which threads come, and may have other bits each time. It does
// not compile; one of integers does.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

template <class T, class V>
__device__ __forceinline__ T attnfuzz_exact_atomic_add(T* at, V value) {
  static_assert(
      std::is_integral_v<T>,
      "EXACT: an atomicAdd of floating-point numbers may give other bits each time; add in a fixed order, "
      "or leave EXACT out");
  return atomicAdd(at, static_cast<T>(value));
}
#define atomicAdd attnfuzz_exact_atomic_add
