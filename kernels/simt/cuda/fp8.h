// <cuda_fp8.h>'s two formats on the executor: numbers of eight bits made of a float, rounded to nearest, to
// even, and what is beyond the largest becomes that; and a float of each.
#pragma once

#include <math.h>
#include <stdint.h>

#include "kernels/simt/cuda/cuda.h"

enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
using __nv_fp8_storage_t = unsigned char;

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
  static uint8_t encode(float value) {
    const uint8_t sign = signbit(value) ? 0x80 : 0;
    if (isnan(value)) return kNan;
    const double size = fabs(static_cast<double>(value));
    if (size >= decode(kMost)) return sign | kMost;
    const int exponent = size == 0 ? 1 - kBias : max(ilogb(size), 1 - kBias);
    const auto steps = static_cast<int>(nearbyint(ldexp(size, kMantissa - exponent)));
    return static_cast<uint8_t>(sign | (((exponent + kBias - 1) << kMantissa) + steps));
  }
};

}  // namespace simt

using __nv_fp8_e4m3 = simt::Bits8Float<4, 3>;
using __nv_fp8_e5m2 = simt::Bits8Float<5, 2>;

inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float value, __nv_saturation_t, __nv_fp8_interpretation_t as) {
  return as == __NV_E4M3 ? __nv_fp8_e4m3::encode(value) : __nv_fp8_e5m2::encode(value);
}
inline __half __nv_cvt_fp8_to_half(__nv_fp8_storage_t bits, __nv_fp8_interpretation_t as) {
  return __float2half(as == __NV_E4M3 ? __nv_fp8_e4m3::decode(bits) : __nv_fp8_e5m2::decode(bits));
}
