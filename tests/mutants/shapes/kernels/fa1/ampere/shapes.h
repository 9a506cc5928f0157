// The mma path as it is, but for its sections, and for tiles of 64 keys where there is a bias beside 64 columns.
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

// K and V of the heads that are worked on side by side, in bytes: so few that there are several sections.
inline constexpr int64_t kAmpereSection = 16 << 10;

}  // namespace attn
