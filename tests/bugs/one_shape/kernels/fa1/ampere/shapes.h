// Known bugs are compiled in one small instantiation, those of the general path without
// the mma path beside it: this header is found before the kernel's own.
#pragma once

#include "kernels/fa1/ampere/spec.h"

namespace attn {

inline constexpr bool kAmpere = false;

struct Ampere64 {
  static constexpr AmpereSpec kSpec = {64, 2, 2, 64, false, 1};
};
using Ampere128 = Ampere64;
struct Ampere64Scored {
  static constexpr AmpereSpec kSpec = {64, 2, 2, 64, false, 1, true};
};
using Ampere128Scored = Ampere64Scored;

// K and V of the heads that are worked on side by side, in bytes: so few that there are several sections.
inline constexpr int64_t kAmpereSection = 16 << 10;

}  // namespace attn
