// What the mma path of FA-1 is compiled for. Measured choices: docs/speed-mma.md.
#pragma once

#include "kernels/fa1/ampere/spec.h"

namespace attn {

// Whether fa1 has this path.
inline constexpr bool kAmpere = true;

struct Ampere64 {
  static constexpr AmpereSpec kSpec = {64, 4, 2, 64, true, 2};
};
struct Ampere128 {
  static constexpr AmpereSpec kSpec = {128, 4, 2, 64, false, 2};
};

}  // namespace attn
