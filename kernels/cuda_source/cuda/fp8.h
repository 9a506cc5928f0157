// The two formats of <cuda_fp8.h> on the executor, with one, two or four numbers in a word, and their
// conversions from and to floats. A conversion from a float rounds to nearest, ties to even. A number beyond
// the largest becomes the largest, or without saturation an infinity or a NaN.
#pragma once

#include <math.h>
#include <stdint.h>

#include "kernels/executor/cuda_words.h"

enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
using __nv_fp8_storage_t = unsigned char;
using __nv_fp8x2_storage_t = unsigned short;
using __nv_fp8x4_storage_t = unsigned;

namespace simt {

template <int kExponent, int kMantissa>
struct Bits8Float {
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr bool kHasInfinity = kMantissa == 2;
  static constexpr uint8_t kNan = 0x7f, kMost = kHasInfinity ? 0x7b : 0x7e;
  __nv_fp8_storage_t __x = 0;

  Bits8Float() = default;
  explicit Bits8Float(float value) : __x(encode(value)) {}
  explicit Bits8Float(half value) : Bits8Float(__half2float(value)) {}
  explicit Bits8Float(__nv_bfloat16 value) : Bits8Float(__bfloat162float(value)) {}
  explicit operator float() const { return decode(__x); }
  explicit operator half() const { return __float2half(decode(__x)); }
  explicit operator __nv_bfloat16() const { return __float2bfloat16(decode(__x)); }

  static float decode(uint8_t bits) {
    const int exponent = bits >> kMantissa & ((1 << kExponent) - 1), mantissa = bits & ((1 << kMantissa) - 1);
    float value = exponent == 0
                      ? ldexpf(static_cast<float>(mantissa), 1 - kBias - kMantissa)
                      : ldexpf(static_cast<float>(mantissa + (1 << kMantissa)), exponent - kBias - kMantissa);
    if (kHasInfinity && (bits & 0x7f) > kMost) value = mantissa == 0 ? INFINITY : NAN;
    if (!kHasInfinity && (bits & 0x7f) == kNan) value = NAN;
    return bits & 0x80 ? -value : value;
  }
  static uint8_t encode(float value, __nv_saturation_t beyond = __NV_SATFINITE) {
    const uint8_t sign = signbit(value) ? 0x80 : 0;
    if (isnan(value)) return kNan;
    const double size = fabs(static_cast<double>(value)), most = decode(kMost);
    const double tie = most + (most - decode(kMost - 1)) / 2;  // E5M2 rounds it up, to even
    if (beyond == __NV_NOSAT && (kHasInfinity ? size >= tie : size > tie))
      return sign | (kHasInfinity ? kMost + 1 : kNan);
    if (size >= most) return sign | kMost;
    const int exponent = size == 0 ? 1 - kBias : max(ilogb(size), 1 - kBias);
    const auto steps = static_cast<int>(nearbyint(ldexp(size, kMantissa - exponent)));
    return static_cast<uint8_t>(sign | (((exponent + kBias - 1) << kMantissa) + steps));
  }
};

// Two and four numbers, the first in the lowest bits.
template <class One, class Word, class Floats, int kCount>
struct Several8 {
  Word __x = 0;

  Several8() = default;
  explicit Several8(Floats values) {
    for (int i = 0; i < kCount; ++i) put(i, (&values.x)[i]);
  }
  explicit Several8(half2 a)
    requires(kCount == 2)
      : Several8(__half22float2(a)) {}
  explicit Several8(__nv_bfloat162 a)
    requires(kCount == 2)
      : Several8(__bfloat1622float2(a)) {}
  Several8(half2 a, half2 b)
    requires(kCount == 4)
  {
    put(0, a.x), put(1, a.y), put(2, b.x), put(3, b.y);
  }
  explicit operator Floats() const {
    Floats values;
    for (int i = 0; i < kCount; ++i) (&values.x)[i] = One::decode(static_cast<uint8_t>(__x >> 8 * i));
    return values;
  }
  explicit operator half2() const
    requires(kCount == 2)
  {
    return __float22half2_rn(static_cast<Floats>(*this));
  }

 private:
  void put(int i, float value) {
    __x = static_cast<Word>(__x | static_cast<Word>(One::encode(value)) << 8 * i);
  }
};

}  // namespace simt

using __nv_fp8_e4m3 = simt::Bits8Float<4, 3>;
using __nv_fp8_e5m2 = simt::Bits8Float<5, 2>;

using __nv_fp8x2_e4m3 = simt::Several8<__nv_fp8_e4m3, __nv_fp8x2_storage_t, float2, 2>;
using __nv_fp8x2_e5m2 = simt::Several8<__nv_fp8_e5m2, __nv_fp8x2_storage_t, float2, 2>;
using __nv_fp8x4_e4m3 = simt::Several8<__nv_fp8_e4m3, __nv_fp8x4_storage_t, float4, 4>;
using __nv_fp8x4_e5m2 = simt::Several8<__nv_fp8_e5m2, __nv_fp8x4_storage_t, float4, 4>;

inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float value, __nv_saturation_t beyond,
                                                __nv_fp8_interpretation_t as) {
  return as == __NV_E4M3 ? __nv_fp8_e4m3::encode(value, beyond) : __nv_fp8_e5m2::encode(value, beyond);
}
inline __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw value, __nv_saturation_t beyond,
                                                  __nv_fp8_interpretation_t as) {
  return __nv_cvt_float_to_fp8(__half(value), beyond, as);
}
inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw value, __nv_saturation_t beyond,
                                                      __nv_fp8_interpretation_t as) {
  return __nv_cvt_float_to_fp8(__nv_bfloat16(value), beyond, as);
}
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 values, __nv_saturation_t beyond,
                                                     __nv_fp8_interpretation_t as) {
  return static_cast<__nv_fp8x2_storage_t>(__nv_cvt_float_to_fp8(values.x, beyond, as) |
                                           __nv_cvt_float_to_fp8(values.y, beyond, as) << 8);
}
inline __nv_fp8x2_storage_t __nv_cvt_halfraw2_to_fp8x2(__half2_raw values, __nv_saturation_t beyond,
                                                       __nv_fp8_interpretation_t as) {
  return __nv_cvt_float2_to_fp8x2(__half22float2(values), beyond, as);
}
inline __nv_fp8x2_storage_t __nv_cvt_bfloat16raw2_to_fp8x2(__nv_bfloat162_raw values, __nv_saturation_t beyond,
                                                           __nv_fp8_interpretation_t as) {
  return __nv_cvt_float2_to_fp8x2(__bfloat1622float2(values), beyond, as);
}
inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t bits, __nv_fp8_interpretation_t as) {
  return __float2half(as == __NV_E4M3 ? __nv_fp8_e4m3::decode(bits) : __nv_fp8_e5m2::decode(bits));
}
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t bits, __nv_fp8_interpretation_t as) {
  return {__nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(bits), as).x,
          __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(bits >> 8), as).x};
}
