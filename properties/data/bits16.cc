#include "properties/data/bits16.h"

namespace attnfuzz {

uint16_t to_bits(int32_t dtype, double value) {
  const Format16 format = format16(dtype);
  const uint64_t raw = std::bit_cast<uint64_t>(value);
  const uint16_t sign = static_cast<uint16_t>((raw >> 48) & 0x8000);
  const int field = static_cast<int>((raw >> 52) & 0x7ff);
  // Doubles below the normal range are far below half of any 16-bit subnormal.
  if (field == 0) return sign;
  const uint64_t significand = (uint64_t{1} << 52) | (raw & ((uint64_t{1} << 52) - 1));
  const int exponent = std::max(field - 1023, 1 - format.bias);  // of the result's last place, were it normal
  const int dropped = 52 - format.mantissa_bits + (exponent - (field - 1023));
  if (dropped > 63) return sign;
  uint64_t kept = dropped > 53 ? 0 : significand >> dropped;
  const uint64_t rest = significand & ((uint64_t{1} << dropped) - 1);
  const uint64_t half = uint64_t{1} << (dropped - 1);
  if (rest > half || (rest == half && (kept & 1))) ++kept;
  // A carry out of the mantissa steps the exponent, as the encodings intend;
  // a subnormal has no implicit bit, so its exponent field comes out as 0.
  const int64_t magnitude =
      (static_cast<int64_t>(exponent + format.bias - 1) << format.mantissa_bits) + static_cast<int64_t>(kept);
  return static_cast<uint16_t>(std::min<int64_t>(magnitude, format.largest)) | sign;
}

}  // namespace attnfuzz
