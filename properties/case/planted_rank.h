// The order in which the reducer likes the bits of a planted value: 0, 1,
// infinity and NaN, which a person knows at sight, then all others by size as
// integers. One to one, so that a rank can be lowered like any other number.
//
//   planted_rank(0x7c00, ATTN_F16)   // 2
//   bits_of_rank(3, ATTN_F16)        // 0x7e00
#pragma once

#include <cstdint>

#include "properties/case/case.h"

namespace attnfuzz {

// `dtype`: of the tensor that the value is planted in.
uint32_t planted_rank(uint32_t bits, int32_t dtype);
uint32_t bits_of_rank(uint32_t rank, int32_t dtype);

// What the bits of a format are called that a person knows at sight.
struct KnownBits {
  uint32_t one, infinity, nan, sign, largest;
};
KnownBits known_bits(int32_t dtype);

// Gives Q, K, V and O another format: what is planted in them keeps its meaning where it is
// a NaN or an infinity, and its value, rounded, where one of the formats is fp32.
void set_dtype(Case& c, int32_t dtype);

// Format of the tensor that x lies in.
int32_t planted_dtype(const Case& c, const Planted& x);

}  // namespace attnfuzz
