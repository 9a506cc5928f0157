// 16-bit floats in memory, and their conversions.
//
// F16 and BF16 hold bits and have no arithmetic: kernels compute in fp32. Conversions from fp32 round to
// nearest, ties to even. A value that is too large becomes infinity, and a NaN becomes some NaN.
//
//   F16 h = from_float<F16>(0.1f);
//   float f = to_float(h);
//   uint32_t word = pack2<BF16>(lo, hi);  // lo in bits 0-15
//   uint32_t least = min2<BF16>(word, other);  // the minimum in each half; if one is a NaN, the other one
#pragma once

#include "kernels/primitives/platform.h"

namespace attn {

struct F16 {
  uint16_t bits;
};

struct BF16 {
  uint16_t bits;
};

#ifdef __CUDACC__

__device__ __forceinline__ float to_float(F16 value) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
}

__device__ __forceinline__ float to_float(BF16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}

template <class T>
__device__ T from_float(float value);

template <>
__device__ __forceinline__ F16 from_float<F16>(float value) {
  F16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
}

template <>
__device__ __forceinline__ BF16 from_float<BF16>(float value) {
  BF16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
}

template <class T>
__device__ uint32_t pack2(float lo, float hi);

template <>
__device__ __forceinline__ uint32_t pack2<F16>(float lo, float hi) {
  uint32_t word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(hi), "f"(lo));
  return word;
}

template <>
__device__ __forceinline__ uint32_t pack2<BF16>(float lo, float hi) {
  uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(hi), "f"(lo));
  return word;
}

template <class T>
__device__ uint32_t min2(uint32_t a, uint32_t b);

template <>
__device__ __forceinline__ uint32_t min2<F16>(uint32_t a, uint32_t b) {
  uint32_t word;
  asm("min.f16x2 %0, %1, %2;" : "=r"(word) : "r"(a), "r"(b));
  return word;
}

template <>
__device__ __forceinline__ uint32_t min2<BF16>(uint32_t a, uint32_t b) {
  uint32_t word;
  asm("min.bf16x2 %0, %1, %2;" : "=r"(word) : "r"(a), "r"(b));
  return word;
}

#else

inline float to_float(F16 value) { return static_cast<float>(__builtin_bit_cast(_Float16, value.bits)); }

inline float to_float(BF16 value) { return __builtin_bit_cast(float, static_cast<uint32_t>(value.bits) << 16); }

template <class T>
T from_float(float value);

// As on the device, every NaN becomes this one. So the pattern of an fp32 NaN never turns into the 16-bit
// pattern that marks memory as not written.
inline constexpr uint16_t kNan16 = 0x7FFF;

template <>
inline F16 from_float<F16>(float value) {
  const uint16_t bits = __builtin_bit_cast(uint16_t, static_cast<_Float16>(value));
  return {value == value ? bits : kNan16};
}

template <>
inline BF16 from_float<BF16>(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t rounded = bits + 0x7FFFu + ((bits >> 16) & 1);
  return {value == value ? static_cast<uint16_t>(rounded >> 16) : kNan16};
}

template <class T>
inline uint32_t pack2(float lo, float hi) {
  return static_cast<uint32_t>(from_float<T>(lo).bits) | static_cast<uint32_t>(from_float<T>(hi).bits) << 16;
}

template <class T>
inline uint32_t min2(uint32_t a, uint32_t b) {
  uint32_t word = 0;
  for (int shift = 0; shift < 32; shift += 16) {
    const uint16_t x = static_cast<uint16_t>(a >> shift), y = static_cast<uint16_t>(b >> shift);
    const float of_x = to_float(T{x}), of_y = to_float(T{y});
    word |= static_cast<uint32_t>(of_y < of_x || of_x != of_x ? y : x) << shift;
  }
  return word;
}

#endif

template <class T>
__device__ __forceinline__ void unpack2(uint32_t word, float& lo, float& hi) {
  lo = to_float(T{static_cast<uint16_t>(word & 0xFFFFu)});
  hi = to_float(T{static_cast<uint16_t>(word >> 16)});
}

}  // namespace attn
