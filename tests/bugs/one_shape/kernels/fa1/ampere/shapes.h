// Known bugs are compiled in one small instantiation. The compiler finds this header before the
// kernel's own. Bugs of the general path are compiled without the mma path (kAmpere).
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

// Bytes of K and V of the heads in one section. The number is small, so that a small problem has several
// sections.
inline constexpr int64_t kAmpereSection = 16 << 10;

}  // namespace attn
