// Elementary functions, with the error that a plan may claim for them.
//
//   ex2   2^x; -inf gives +0; relative error at most 2^-22; a result below
//         2^-126 is 0                                  (ATTN_EXP_EX2_APPROX)
//   lg2   log2 x; 0 and subnormals give -inf           (ATTN_LOG_LG2_APPROX)
//   rcp   1/x; a subnormal x gives infinity, a subnormal result 0
//                                                      (ATTN_RCP_APPROX)
//   rsqrt 1/sqrt(x); subnormals count as 0
//   tanh  relative error at most 2^-22                  (ATTN_TANH_TANHF)
//   fma   one rounding
//   zero  a 0 that nvcc does not know to be a constant. (nvcc keeps a constant that an fma uses
//         in a register, and initialises all variables that start at 0 by copies of it)
//   fmax  the maximum; if one argument is a NaN, the other one. fmax_nan gives NaN then
//
// All but fmax return NaN for NaN. If the executor emulates a device's arithmetic
// (kernels/executor/arithmetic/arithmetic.h), the CPU bodies of ex2, lg2, rcp and rsqrt give that device's
// bits. Otherwise the CPU body of ex2, like that of fmax, has no branches and no calls.
#pragma once

#include "kernels/primitives/platform.h"

#ifndef __CUDACC__
#include <math.h>

#include "kernels/executor/arithmetic/device_math.h"
#endif

namespace attn {

#ifdef __CUDACC__

__device__ __forceinline__ float ex2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

__device__ __forceinline__ float lg2(float x) {
  float result;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

__device__ __forceinline__ float rcp(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

__device__ __forceinline__ float rsqrt(float x) {
  float result;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

__device__ __forceinline__ float fma(float a, float b, float c) { return ::__fmaf_rn(a, b, c); }
__device__ __forceinline__ float fmax(float a, float b) { return ::fmaxf(a, b); }
__device__ __forceinline__ float fmax_nan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
__device__ __forceinline__ float fabs(float x) { return ::fabsf(x); }
__device__ __forceinline__ float copysign(float size, float sign) { return ::copysignf(size, sign); }
__device__ __forceinline__ float inf() { return __int_as_float(0x7F800000); }
__device__ __forceinline__ float zero() {
  float result;
  asm("mov.f32 %0, 0f00000000;" : "=f"(result));
  return result;
}

#else

inline float inf() { return __builtin_inff(); }

inline float zero() { return 0; }

inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

inline float fmax(float a, float b) { return a > b ? a : (b == b ? b : a); }

inline float fmax_nan(float a, float b) { return a > b ? a : (a == a ? b : a); }

inline float ex2(float x) {
  if (simt::arithmetic) return simt::as_device<simt::device_ex2>(x);
  // x = n + f with |f| <= 1/2. Outside -127..128 the result is 0 or infinity.
  float clamped = x < -127.0f ? -127.0f : x;
  clamped = clamped > 128.0f ? 128.0f : clamped;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves an integer in the low bits
  const float shifted = clamped + kRound;
  const float f = clamped - (shifted - kRound);
  // Interpolates (2^f - 1) / f at the six Chebyshev nodes of [-1/2, 1/2]. In exact arithmetic the relative
  // error of 2^f is below 2^-27.
  float p = 1.545316336e-4f;
  p = fma(p, f, 1.339086331e-3f);
  p = fma(p, f, 9.618083015e-3f);
  p = fma(p, f, 5.550356954e-2f);
  p = fma(p, f, 2.402265072e-1f);
  p = fma(p, f, 6.931471825e-1f);
  p = fma(p, f, 1.0f);
  const uint32_t n = __builtin_bit_cast(uint32_t, shifted) - __builtin_bit_cast(uint32_t, kRound);
  const float scaled = __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, p) + (n << 23));
  const float flushed = x < -126.0f ? 0.0f : scaled;
  return x == x ? flushed : x;
}

inline float fabs(float x) { return __builtin_fabsf(x); }
inline float copysign(float size, float sign) { return __builtin_copysignf(size, sign); }
inline float flush(float x) { return fabs(x) < 0x1p-126f ? copysign(0.0f, x) : x; }

inline float lg2(float x) {
  return simt::arithmetic ? simt::as_device<simt::device_lg2>(x) : ::log2f(flush(x));
}
inline float rcp(float x) {
  return simt::arithmetic ? simt::as_device<simt::device_rcp>(x) : flush(1.0f / flush(x));
}
inline float rsqrt(float x) {
  return simt::arithmetic ? simt::as_device<simt::device_rsqrt>(x) : 1.0f / ::sqrtf(flush(x));
}

#endif

// Computes both formulas and selects one without a branch. 1 - 2 / (1 + e^(2|x|)) would cancel at small |x|,
// where x + x^3 p(x^2) is used; p is the polynomial that minimises tanh's relative error.
__device__ __forceinline__ float tanh(float x) {
  constexpr float kNear = 0.65f, kTwoLog2e = 2.88539008177792681f;
  const float size = fabs(x), square = x * x;
  float p = -0x1.6970d8p-8f;
  p = fma(p, square, 0x1.4f5ee6p-6f);
  p = fma(p, square, -0x1.b7cfeep-5f);
  p = fma(p, square, 0x1.1103f2p-3f);
  p = fma(p, square, -0x1.555524p-2f);
  const float near = fma(size * square, p, size);
  const float far = fma(-2.0f, rcp(ex2(size * kTwoLog2e) + 1.0f), 1.0f);
  return copysign(size < kNear ? near : far, x);
}

__device__ __forceinline__ float neg_inf() { return -inf(); }
// The most negative finite number.
__device__ __forceinline__ float lowest() { return -0x1.fffffep127f; }

}  // namespace attn
