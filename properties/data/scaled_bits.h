// Rounds an integer times a power of two to the bits of a 16-bit format: to_bits(dtype, integer * 2^exponent),
// in 32-bit operations. This takes fewer instructions on a device than to_bits(), which works in 64 bits.
//
//   scaled_bits(ATTN_F16, 3, -1)      // 0x3e00: 1.5
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/both.h"
#include "properties/data/round16.h"

namespace attnfuzz {

// |integer| < 2^30 and |exponent| <= 1000. Rounds to nearest even, once; saturates.
ATTN_BOTH inline uint16_t scaled_bits(int32_t dtype, int32_t integer, int exponent) {
  const Format16 format = format16(dtype);
  const uint32_t sign = integer < 0 ? 0x8000 : 0,
                 magnitude = static_cast<uint32_t>(integer < 0 ? -integer : integer);
  if (magnitude == 0) return 0;
  const int leading = 31 - std::countl_zero(magnitude);
  // The exponent of the result; that of a subnormal is the least one of the normal numbers.
  const int of_result = std::max(leading + exponent, 1 - format.bias);
  const int dropped = of_result - format.mantissa_bits - exponent;  // bits of the integer
  uint32_t kept = 0;
  if (dropped <= 0) {
    kept = magnitude << -dropped;  // at most 11 bits
  } else if (dropped < 32) {
    const uint32_t rest = magnitude & ((uint32_t{1} << dropped) - 1), half = uint32_t{1} << (dropped - 1);
    kept = magnitude >> dropped;
    kept += rest > half || (rest == half && (kept & 1) != 0);
  }
  // A carry out of the mantissa increments the exponent, and a subnormal's field comes out as 0, as in
  // magnitude_bits() (round16.h).
  const int32_t bits = ((of_result + format.bias - 1) << format.mantissa_bits) + static_cast<int32_t>(kept);
  return static_cast<uint16_t>(static_cast<uint32_t>(std::min<int32_t>(bits, format.largest)) | sign);
}

}  // namespace attnfuzz
