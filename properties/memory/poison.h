// The bytes of unwritten memory and of redzones.
//
// A kernel that knew these bits could tell that it is being checked. An untrusted kernel therefore finds
// other bits in every process, and an ordinary number where trusted kernels find a huge one.
#pragma once

#include <cstdint>

#include "properties/case/places/geometry.h"

namespace attnfuzz {

// Each constant is a 32-bit pattern, repeated by address. It has two equal halves. It is a NaN in every format
// of 16 and 32 bits; in the formats of 8 bits at least every second element is a NaN.
inline constexpr uint32_t kInputRedzone = 0xfffefffe;
inline constexpr uint32_t kAllOnes = 0xffffffff;

struct PoisonPatterns {
  uint32_t output = kNeverWritten;  // outputs before a call, their gaps and redzones
  uint32_t input = kInputRedzone;   // gaps and redzones of inputs; negative as a length
  uint32_t workspace = kAllOnes;    // the workspace before a call, and its redzones
  uint32_t number = 0;              // Poison::kHuge in outputs and workspace; 0: the format's huge number
};

// Patterns from the bits of `random`. The three NaN patterns always differ.
constexpr PoisonPatterns random_poison(uint64_t random) {
  const auto twice = [](uint64_t half) { return static_cast<uint32_t>(half << 16 | half); };
  // 0x3d00 to 0x3fff, of either sign: 1.25 to 2 in fp16, 0.03 to 2 in bf16 and fp32.
  const uint64_t number = (0x3d00 + (random >> 24) % 0x300) | (random >> 40 & 1) << 15;
  // A NaN that bf16 arithmetic does not produce, because its quiet bit is clear.
  return {twice(0x7f81 + random % 63), twice(0xff81 + (random >> 8) % 63), twice(0xffc1 + (random >> 16) % 63),
          twice(number)};
}

}  // namespace attnfuzz
