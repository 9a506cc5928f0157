// Rounds a double to the bits of a 16-bit format or of fp32. It uses only integers, so a host and a device get
// the same bits. The rest of bits16.h needs the host's compiler.
//
//   to_bits(ATTN_F16, 0.1)          // 0x2e66: to nearest, ties to even
//   to_bits(ATTN_F16, 1e9)          // 0x7bff: saturates, never becomes infinite
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/both.h"
#include "kernels/attention.h"

namespace attnfuzz {

struct Format16 {
  int mantissa_bits;
  int bias;
  uint16_t largest;  // bits of the largest finite number
  uint16_t nan;      // a quiet NaN, positive, no payload
  uint16_t infinity;
};

ATTN_BOTH constexpr Format16 format16(int32_t dtype) {
  return dtype == ATTN_F16 ? Format16{10, 15, 0x7bff, 0x7e00, 0x7c00}
                           : Format16{7, 127, 0x7f7f, 0x7fc0, 0x7f80};
}

// 2^n exactly. n must be in the normal range of the type.
ATTN_BOTH constexpr double exp2_exact(int n) {
  return std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52);
}
ATTN_BOTH constexpr float exp2f_exact(int n) {
  return std::bit_cast<float>(static_cast<uint32_t>(n + 127) << 23);
}

// The bits of the finite |value| in a format with this mantissa, rounded once, to nearest even. A value
// beyond the format comes out above its infinity.
ATTN_BOTH inline int64_t magnitude_bits(int mantissa_bits, int bias, double value) {
  const uint64_t raw = std::bit_cast<uint64_t>(value);
  const int field = static_cast<int>((raw >> 52) & 0x7ff);
  // Subnormal doubles are far below half of the format's least subnormal.
  if (field == 0) return 0;
  const uint64_t significand = (uint64_t{1} << 52) | (raw & ((uint64_t{1} << 52) - 1));
  // exponent of the result's last place, if it were normal
  const int exponent = std::max(field - 1023, 1 - bias);
  const int dropped = 52 - mantissa_bits + (exponent - (field - 1023));
  if (dropped > 63) return 0;
  uint64_t kept = dropped > 53 ? 0 : significand >> dropped;
  const uint64_t rest = significand & ((uint64_t{1} << dropped) - 1);
  const uint64_t half = uint64_t{1} << (dropped - 1);
  if (rest > half || (rest == half && (kept & 1))) ++kept;
  // A carry out of the mantissa increments the exponent, as the encodings intend. A subnormal has no implicit
  // bit, so its exponent field comes out as 0.
  return (static_cast<int64_t>(exponent + bias - 1) << mantissa_bits) + static_cast<int64_t>(kept);
}

// `value` is finite. Rounds to nearest even, once; saturates.
ATTN_BOTH inline uint16_t to_bits(int32_t dtype, double value) {
  const Format16 format = format16(dtype);
  const auto sign = static_cast<uint16_t>(std::bit_cast<uint64_t>(value) >> 48 & 0x8000);
  const int64_t magnitude = magnitude_bits(format.mantissa_bits, format.bias, value);
  return static_cast<uint16_t>(std::min<int64_t>(magnitude, format.largest)) | sign;
}

// to_bits() for fp32.
ATTN_BOTH inline uint32_t to_bits32(double value) {
  const auto sign = static_cast<uint32_t>(std::bit_cast<uint64_t>(value) >> 32 & 0x80000000);
  return static_cast<uint32_t>(std::min<int64_t>(magnitude_bits(23, 127, value), 0x7f7fffff)) | sign;
}

}  // namespace attnfuzz
