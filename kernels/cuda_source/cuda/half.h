// __half and __nv_bfloat16 in plain CUDA code: conversions, and arithmetic in a wider format that is rounded
// once, as on a GPU.
#pragma once

#include <math.h>

#include <type_traits>

#include "kernels/cuda_source/cuda/math.h"
#include "kernels/cuda_source/cuda/vector.h"

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

// The bits of one number and of two, for conversions from and to 8-bit formats.
template <class Format>
struct Raw16 {
  unsigned short x;
};
template <class Format>
struct RawPair16 {
  unsigned short x, y;
};

// A 16-bit float with the operators that CUDA gives it.
template <class Format>
struct Float16Bits {
  uint16_t bits;

  Float16Bits() = default;
  Float16Bits(float value) : bits(Format::narrow(value)) {}
  Float16Bits(Raw16<Format> raw) : bits(raw.x) {}
  Float16Bits(double value) : Float16Bits(static_cast<float>(value)) {}
  template <class T>
    requires std::is_integral_v<T>
  Float16Bits(T value) : Float16Bits(static_cast<float>(value)) {}
  template <class Other>
  explicit Float16Bits(Float16Bits<Other> value) : Float16Bits(float(value)) {}
  operator float() const { return Format::widen(bits); }
  operator Raw16<Format>() const { return {bits}; }

  Float16Bits& operator=(float value) { return *this = Float16Bits(value); }
  Float16Bits& operator+=(Float16Bits other) { return *this = *this + other; }
  Float16Bits& operator-=(Float16Bits other) { return *this = *this - other; }
  Float16Bits& operator*=(Float16Bits other) { return *this = *this * other; }
  Float16Bits& operator/=(Float16Bits other) { return *this = *this / other; }
  friend Float16Bits operator+(Float16Bits a, Float16Bits b) { return float(a) + float(b); }
  friend Float16Bits operator-(Float16Bits a, Float16Bits b) { return float(a) - float(b); }
  friend Float16Bits operator*(Float16Bits a, Float16Bits b) { return float(a) * float(b); }
  friend Float16Bits operator/(Float16Bits a, Float16Bits b) { return float(a) / float(b); }
  friend Float16Bits operator-(Float16Bits a) { return of_bits(static_cast<uint16_t>(a.bits ^ 0x8000)); }
  friend Float16Bits operator+(Float16Bits a) { return a; }

  static Float16Bits of_bits(uint16_t bits) {
    Float16Bits result;
    result.bits = bits;
    return result;
  }
};

template <class Format>
struct alignas(4) Float16Pair {
  using Scalar = Float16Bits<Format>;
  Scalar x, y;

  Float16Pair() = default;
  Float16Pair(Scalar low, Scalar high) : x(low), y(high) {}
  Float16Pair(RawPair16<Format> raw) : x(Scalar::of_bits(raw.x)), y(Scalar::of_bits(raw.y)) {}
  operator RawPair16<Format>() const { return {x.bits, y.bits}; }
  friend Float16Pair operator+(Float16Pair a, Float16Pair b) { return {a.x + b.x, a.y + b.y}; }
  friend Float16Pair operator-(Float16Pair a, Float16Pair b) { return {a.x - b.x, a.y - b.y}; }
  friend Float16Pair operator*(Float16Pair a, Float16Pair b) { return {a.x * b.x, a.y * b.y}; }
  friend Float16Pair operator/(Float16Pair a, Float16Pair b) { return {a.x / b.x, a.y / b.y}; }
  friend Float16Pair operator-(Float16Pair a) { return {-a.x, -a.y}; }
  Float16Pair& operator+=(Float16Pair b) { return *this = *this + b; }
  Float16Pair& operator-=(Float16Pair b) { return *this = *this - b; }
  Float16Pair& operator*=(Float16Pair b) { return *this = *this * b; }
};

// Like fmax and fmin in C: if one argument is a NaN, the result is the other one.
template <class Format>
inline Float16Bits<Format> max16(Float16Bits<Format> a, Float16Bits<Format> b) {
  return fmaxf(a, b);
}
template <class Format>
inline Float16Bits<Format> min16(Float16Bits<Format> a, Float16Bits<Format> b) {
  return fminf(a, b);
}
template <class Format>
inline Float16Bits<Format> fma16(Float16Bits<Format> a, Float16Bits<Format> b, Float16Bits<Format> c) {
  return fmaf(a, b, c);
}

}  // namespace simt

using __half = simt::Float16Bits<simt::HalfFormat>;
using __half2 = simt::Float16Pair<simt::HalfFormat>;
using half = __half;
using half2 = __half2;
using __nv_half = __half;
using __nv_half2 = __half2;
using __nv_bfloat16 = simt::Float16Bits<simt::BFloatFormat>;
using __nv_bfloat162 = simt::Float16Pair<simt::BFloatFormat>;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;
using __half_raw = simt::Raw16<simt::HalfFormat>;
using __half2_raw = simt::RawPair16<simt::HalfFormat>;
using __nv_bfloat16_raw = simt::Raw16<simt::BFloatFormat>;
using __nv_bfloat162_raw = simt::RawPair16<simt::BFloatFormat>;

// CUDA's names for one of the two formats: half or bfloat16.
#define ATTN_SIMT_CONVERSIONS(half, half2, name, halves2)                         \
  inline half __float2##name(float x) { return x; }                               \
  inline half __float2##name##_rn(float x) { return x; }                          \
  inline half __double2##name(double x) { return x; }                             \
  inline half __int2##name##_rn(int x) { return x; }                              \
  inline half __uint2##name##_rn(unsigned x) { return x; }                        \
  inline float __##name##2float(half x) { return x; }                             \
  inline int __##name##2int_rn(half x) { return __float2int_rn(x); }              \
  inline int __##name##2int_rz(half x) { return __float2int_rz(x); }              \
  inline half2 __float2##name##2_rn(float x) { return {x, x}; }                   \
  inline half2 __floats2##name##2_rn(float x, float y) { return {x, y}; }         \
  inline half2 __float22##name##2_rn(float2 x) { return {x.x, x.y}; }             \
  inline float2 __##name##22float2(half2 x) { return {x.x, x.y}; }                \
  inline half2 __##name##2##name##2(half x) { return {x, x}; }                    \
  inline half2 halves2(half x, half y) { return {x, y}; }                         \
  inline unsigned short __##name##_as_ushort(half x) { return x.bits; }           \
  inline short __##name##_as_short(half x) { return static_cast<short>(x.bits); } \
  inline half __ushort_as_##name(unsigned short x) { return half::of_bits(x); }   \
  inline half __short_as_##name(short x) { return half::of_bits(static_cast<unsigned short>(x)); }

ATTN_SIMT_CONVERSIONS(__half, __half2, half, __halves2half2)
ATTN_SIMT_CONVERSIONS(__nv_bfloat16, __nv_bfloat162, bfloat16, __halves2bfloat162)
#undef ATTN_SIMT_CONVERSIONS

inline half2 make_half2(half x, half y) { return {x, y}; }
inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
inline half __float2half_rz(float x) {  // toward zero
  half result = x;
  if (fabsf(result) > fabsf(x)) --result.bits;
  return result;
}

inline half __low2half(half2 a) { return a.x; }
inline half __high2half(half2 a) { return a.y; }
inline half2 __low2half2(half2 a) { return {a.x, a.x}; }
inline half2 __high2half2(half2 a) { return {a.y, a.y}; }
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a) { return a.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a) { return a.y; }
inline __nv_bfloat162 __low2bfloat162(__nv_bfloat162 a) { return {a.x, a.x}; }
inline __nv_bfloat162 __high2bfloat162(__nv_bfloat162 a) { return {a.y, a.y}; }
template <class F>
float __low2float(simt::Float16Pair<F> a) {
  return a.x;
}
template <class F>
float __high2float(simt::Float16Pair<F> a) {
  return a.y;
}
template <class F>
simt::Float16Pair<F> __lowhigh2highlow(simt::Float16Pair<F> a) {
  return {a.y, a.x};
}
template <class F>
simt::Float16Pair<F> __lows2half2(simt::Float16Pair<F> a, simt::Float16Pair<F> b) {
  return {a.x, b.x};
}
template <class F>
simt::Float16Pair<F> __highs2half2(simt::Float16Pair<F> a, simt::Float16Pair<F> b) {
  return {a.y, b.y};
}

// Operations on one number and on two.
#define ATTN_SIMT_BINARY(name, value)                                                 \
  template <class F>                                                                  \
  simt::Float16Bits<F> __h##name(simt::Float16Bits<F> a, simt::Float16Bits<F> b) {    \
    return value;                                                                     \
  }                                                                                   \
  template <class F>                                                                  \
  simt::Float16Pair<F> __h##name##2(simt::Float16Pair<F> a, simt::Float16Pair<F> b) { \
    return {__h##name(a.x, b.x), __h##name(a.y, b.y)};                                \
  }
ATTN_SIMT_BINARY(add, a + b)
ATTN_SIMT_BINARY(sub, a - b)
ATTN_SIMT_BINARY(mul, a* b)
ATTN_SIMT_BINARY(add_rn, a + b)
ATTN_SIMT_BINARY(sub_rn, a - b)
ATTN_SIMT_BINARY(mul_rn, a* b)
ATTN_SIMT_BINARY(add_sat, fminf(fmaxf(a + b, 0.0f), 1.0f))
ATTN_SIMT_BINARY(mul_sat, fminf(fmaxf(a* b, 0.0f), 1.0f))
ATTN_SIMT_BINARY(div_of, a / b)
ATTN_SIMT_BINARY(max, simt::max16(a, b))
ATTN_SIMT_BINARY(min, simt::min16(a, b))
ATTN_SIMT_BINARY(max_nan, float(a) != float(a) ? a : float(b) != float(b) ? b : simt::max16(a, b))
ATTN_SIMT_BINARY(min_nan, float(a) != float(a) ? a : float(b) != float(b) ? b : simt::min16(a, b))
#undef ATTN_SIMT_BINARY
template <class F>
simt::Float16Bits<F> __hdiv(simt::Float16Bits<F> a, simt::Float16Bits<F> b) {
  return a / b;
}
template <class F>
simt::Float16Pair<F> __h2div(simt::Float16Pair<F> a, simt::Float16Pair<F> b) {
  return a / b;
}
template <class F>
simt::Float16Bits<F> __hfma(simt::Float16Bits<F> a, simt::Float16Bits<F> b, simt::Float16Bits<F> c) {
  return simt::fma16(a, b, c);
}
template <class F>
simt::Float16Pair<F> __hfma2(simt::Float16Pair<F> a, simt::Float16Pair<F> b, simt::Float16Pair<F> c) {
  return {simt::fma16(a.x, b.x, c.x), simt::fma16(a.y, b.y, c.y)};
}
template <class F>
simt::Float16Bits<F> __hfma_relu(simt::Float16Bits<F> a, simt::Float16Bits<F> b, simt::Float16Bits<F> c) {
  return simt::max16(simt::fma16(a, b, c), simt::Float16Bits<F>(0.0f));
}
template <class F>
simt::Float16Bits<F> __hneg(simt::Float16Bits<F> a) {
  return -a;
}
template <class F>
simt::Float16Pair<F> __hneg2(simt::Float16Pair<F> a) {
  return -a;
}
template <class F>
simt::Float16Bits<F> __habs(simt::Float16Bits<F> a) {
  return simt::Float16Bits<F>::of_bits(static_cast<uint16_t>(a.bits & 0x7FFF));
}
template <class F>
simt::Float16Pair<F> __habs2(simt::Float16Pair<F> a) {
  return {__habs(a.x), __habs(a.y)};
}

// Comparisons. For one number the result is a bool, for two it is a bool, or 1 or 0 for each.
#define ATTN_SIMT_COMPARE(name, op)                                                          \
  template <class F>                                                                         \
  bool __h##name(simt::Float16Bits<F> a, simt::Float16Bits<F> b) {                           \
    return float(a) op float(b);                                                             \
  }                                                                                          \
  template <class F>                                                                         \
  simt::Float16Pair<F> __h##name##2(simt::Float16Pair<F> a, simt::Float16Pair<F> b) {        \
    return {float(a.x) op float(b.x) ? 1.0f : 0.0f, float(a.y) op float(b.y) ? 1.0f : 0.0f}; \
  }                                                                                          \
  template <class F>                                                                         \
  bool __hb##name##2(simt::Float16Pair<F> a, simt::Float16Pair<F> b) {                       \
    return float(a.x) op float(b.x) && float(a.y) op float(b.y);                             \
  }
ATTN_SIMT_COMPARE(eq, ==)
ATTN_SIMT_COMPARE(ne, !=)
ATTN_SIMT_COMPARE(gt, >)
ATTN_SIMT_COMPARE(ge, >=)
ATTN_SIMT_COMPARE(lt, <)
ATTN_SIMT_COMPARE(le, <=)
#undef ATTN_SIMT_COMPARE
template <class F>
bool __hisnan(simt::Float16Bits<F> a) {
  return float(a) != float(a);
}
template <class F>
int __hisinf(simt::Float16Bits<F> a) {
  return isinf(float(a)) ? (float(a) < 0 ? -1 : 1) : 0;
}

// Functions: computed in fp32 and rounded.
#define ATTN_SIMT_FUNCTION(name, value)                   \
  template <class F>                                      \
  simt::Float16Bits<F> h##name(simt::Float16Bits<F> a) {  \
    const float x = a;                                    \
    return value;                                         \
  }                                                       \
  template <class F>                                      \
  simt::Float16Pair<F> h2##name(simt::Float16Pair<F> a) { \
    return {h##name(a.x), h##name(a.y)};                  \
  }
ATTN_SIMT_FUNCTION(exp, expf(x))
ATTN_SIMT_FUNCTION(exp2, exp2f(x))
ATTN_SIMT_FUNCTION(exp10, powf(10.0f, x))
ATTN_SIMT_FUNCTION(log, logf(x))
ATTN_SIMT_FUNCTION(log2, log2f(x))
ATTN_SIMT_FUNCTION(sqrt, sqrtf(x))
ATTN_SIMT_FUNCTION(rsqrt, 1.0f / sqrtf(x))
ATTN_SIMT_FUNCTION(rcp, 1.0f / x)
ATTN_SIMT_FUNCTION(sin, sinf(x))
ATTN_SIMT_FUNCTION(cos, cosf(x))
ATTN_SIMT_FUNCTION(tanh, tanhf(x))
ATTN_SIMT_FUNCTION(floor, floorf(x))
ATTN_SIMT_FUNCTION(ceil, ceilf(x))
ATTN_SIMT_FUNCTION(rint, rintf(x))
#undef ATTN_SIMT_FUNCTION

#define CUDART_INF_FP16 __ushort_as_half(static_cast<unsigned short>(0x7C00U))
#define CUDART_NAN_FP16 __ushort_as_half(static_cast<unsigned short>(0x7FFFU))
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half(static_cast<unsigned short>(0x7BFFU))
#define CUDART_ZERO_FP16 __ushort_as_half(static_cast<unsigned short>(0x0000U))
#define CUDART_ONE_FP16 __ushort_as_half(static_cast<unsigned short>(0x3C00U))
#define CUDART_INF_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x7F80U))
#define CUDART_NAN_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x7FFFU))
