// __half and __nv_bfloat16 in plain CUDA code: conversions, and arithmetic that
// is done in a wider format and rounded once, as on a GPU.
#ifndef ATTNFUZZ_KERNELS_SIMT_CUDA_HALF_H_
#define ATTNFUZZ_KERNELS_SIMT_CUDA_HALF_H_

#include <math.h>

#include "kernels/simt/cuda_vector.h"

namespace simt {

struct HalfFormat {
  static float widen(uint16_t bits) { return static_cast<float>(__builtin_bit_cast(_Float16, bits)); }
  static uint16_t narrow(float value) { return __builtin_bit_cast(uint16_t, static_cast<_Float16>(value)); }
};

struct BFloatFormat {
  static float widen(uint16_t bits) { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }
  static uint16_t narrow(float value) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, value);
    if (value != value) return static_cast<uint16_t>(bits >> 16 | 0x40);
    return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
};

// A 16-bit float with the operators that CUDA gives it.
template <class Format>
struct Float16Bits {
  uint16_t bits;

  Float16Bits() = default;
  Float16Bits(float value) : bits(Format::narrow(value)) {}
  operator float() const { return Format::widen(bits); }

  Float16Bits& operator+=(Float16Bits other) { return *this = *this + other; }
  Float16Bits& operator-=(Float16Bits other) { return *this = *this - other; }
  Float16Bits& operator*=(Float16Bits other) { return *this = *this * other; }
  Float16Bits& operator/=(Float16Bits other) { return *this = *this / other; }
  friend Float16Bits operator+(Float16Bits a, Float16Bits b) { return float(a) + float(b); }
  friend Float16Bits operator-(Float16Bits a, Float16Bits b) { return float(a) - float(b); }
  friend Float16Bits operator*(Float16Bits a, Float16Bits b) { return float(a) * float(b); }
  friend Float16Bits operator/(Float16Bits a, Float16Bits b) { return float(a) / float(b); }
  friend Float16Bits operator-(Float16Bits a) { return -float(a); }
};

template <class Format>
struct alignas(4) Float16Pair {
  Float16Bits<Format> x, y;
};

}  // namespace simt

using __half = simt::Float16Bits<simt::HalfFormat>;
using __half2 = simt::Float16Pair<simt::HalfFormat>;
using half = __half;
using half2 = __half2;
using __nv_bfloat16 = simt::Float16Bits<simt::BFloatFormat>;
using __nv_bfloat162 = simt::Float16Pair<simt::BFloatFormat>;

inline __half __float2half(float value) { return value; }
inline __half __float2half_rn(float value) { return value; }
inline float __half2float(__half value) { return value; }
inline __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
inline float2 __half22float2(__half2 pair) { return {pair.x, pair.y}; }
inline __nv_bfloat16 __float2bfloat16(float value) { return value; }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return value; }
inline float __bfloat162float(__nv_bfloat16 value) { return value; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
inline float2 __bfloat1622float2(__nv_bfloat162 pair) { return {pair.x, pair.y}; }

template <class Format>
simt::Float16Bits<Format> __hadd(simt::Float16Bits<Format> a, simt::Float16Bits<Format> b) {
  return a + b;
}
template <class Format>
simt::Float16Bits<Format> __hsub(simt::Float16Bits<Format> a, simt::Float16Bits<Format> b) {
  return a - b;
}
template <class Format>
simt::Float16Bits<Format> __hmul(simt::Float16Bits<Format> a, simt::Float16Bits<Format> b) {
  return a * b;
}
template <class Format>
simt::Float16Bits<Format> __hfma(simt::Float16Bits<Format> a, simt::Float16Bits<Format> b,
                                 simt::Float16Bits<Format> c) {
  return fmaf(a, b, c);
}
template <class Format>
simt::Float16Bits<Format> __hmax(simt::Float16Bits<Format> a, simt::Float16Bits<Format> b) {
  return fmaxf(a, b);
}

#endif  // ATTNFUZZ_KERNELS_SIMT_CUDA_HALF_H_
