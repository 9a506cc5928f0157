// The order in which the reducer prefers the bits of a planted value: 0, 1, infinity and NaN, which a
// person recognises, then all others by size as integers. The mapping is one to one, so a rank can be
// lowered like any other number.
//
//   planted_rank(0x7c00, ATTN_F16)   // 2
//   bits_of_rank(3, ATTN_F16)        // 0x7e00
#pragma once

#include <cstdint>

#include "properties/case/case.h"

namespace attnfuzz {

// `dtype`: format of the tensor that holds the value.
uint32_t planted_rank(uint32_t bits, int32_t dtype);
uint32_t bits_of_rank(uint32_t rank, int32_t dtype);

// The bit patterns of a format that a person recognises.
// E4M3 has no infinity; its largest number stands for it.
struct KnownBits {
  uint32_t one, infinity, nan, sign, largest;
};
KnownBits known_bits(int32_t dtype);

// Changes the format of Q, K, V and O, and of values planted in tensors of this format. A planted NaN or
// infinity stays one. If one of the formats is fp32, other planted values keep their value, rounded.
void set_dtype(Case& c, int32_t dtype);

// Changes the format of K and V: to 8 bits with these scales, or to that of Q. Planted values of K and V keep
// their values, rounded; a NaN or an infinity stays one where the format has it. A change to Q's format removes
// the scales and their layouts.
void set_kv8(Case& c, const std::optional<Kv8>& to);

// The format of the tensor that holds x.
int32_t planted_dtype(const Case& c, const Planted& x);

}  // namespace attnfuzz
