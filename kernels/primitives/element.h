// Loads and stores elements of fp16, bf16 or fp32 as floats, because kernels compute in fp32.
//
//   sum = fma(weight, load_float(from + column * stride), sum);
//   store_float(to + column * stride, sum);   // rounds to nearest
#pragma once

#include "kernels/primitives/types.h"

namespace attn {

template <class T>
__device__ float load_float(const T* from) {
  return to_float(*from);
}
template <>
__device__ inline float load_float<float>(const float* from) {
  return *from;
}

template <class T>
__device__ void store_float(T* to, float value) {
  *to = from_float<T>(value);
}
template <>
__device__ inline void store_float<float>(float* to, float value) {
  *to = value;
}

}  // namespace attn
