// Exact conversions between numbers and the bits of the 16-bit formats.
//
// Fills must give the same bytes on every machine for ever, so the conversions use no math library and no
// back end's types. to_bits() uses only integers. from_float() and to_float() use the compiler's _Float16 for
// fp16; a test compares from_float() with to_bits().
//
//   to_bits(ATTN_F16, 0.1)          // 0x2e66: to nearest, ties to even
//   to_bits(ATTN_F16, 1e9)          // 0x7bff: saturates, never becomes infinite
//   to_float(ATTN_BF16, 0x3f80)     // 1.0f
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/attention.h"
#include "properties/data/round16.h"

namespace attnfuzz {

// to_bits() of a float, inline and vectorisable in a loop.
inline uint16_t f16_from_float(float value) {
  // `_Float16` rounds to nearest even on every target that has it.
  return std::bit_cast<uint16_t>(static_cast<_Float16>(std::clamp(value, -65504.0f, 65504.0f)));
}
inline uint16_t bf16_from_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t rounded = (magnitude + 0x7fff + ((magnitude >> 16) & 1)) >> 16;
  return static_cast<uint16_t>(std::min<uint32_t>(rounded, 0x7f7f) | ((bits >> 16) & 0x8000));
}
inline uint16_t from_float(int32_t dtype, float value) {
  return dtype == ATTN_F16 ? f16_from_float(value) : bf16_from_float(value);
}

// Exact; keeps NaN and infinities.
inline float to_float(int32_t dtype, uint16_t bits) {
  if (dtype == ATTN_BF16) return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  return static_cast<float>(std::bit_cast<_Float16>(bits));
}

}  // namespace attnfuzz
