// The mma path with small sections, and with tiles of 64 keys if there is a bias and 64 columns.
#pragma once

#include "kernels/fa1/ampere/spec.h"

namespace attn {

inline constexpr bool kAmpere = true;

struct Ampere64 {
  static constexpr AmpereSpec kSpec = {64, 4, 2, 64, true, 2};
};
struct Ampere128 {
  static constexpr AmpereSpec kSpec = {128, 4, 2, 64, false, 2};
};
struct Ampere64Scored {
  static constexpr AmpereSpec kSpec = {64, 4, 2, 64, false, 2, true};
};
struct Ampere128Scored {
  static constexpr AmpereSpec kSpec = {128, 4, 2, 32, false, 2, true};
};

// Bytes of K and V of the heads in one section. The number is small, so that a small problem has several sections.
inline constexpr int64_t kAmpereSection = 16 << 10;

}  // namespace attn
