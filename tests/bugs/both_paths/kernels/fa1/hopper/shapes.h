// Found before one_shape's: two small instantiations, as of 128 and of 256 columns; the second is
// that of causal problems.
#pragma once

#include "kernels/fa1/hopper/spec.h"

namespace attn {

struct Hopper64 {
  static constexpr HopperSpec kSpec = {64, 2, 64, 2, 2, 1, true, true, true, 40, 232, false, true};
};
struct Hopper64Short {
  static constexpr HopperSpec kSpec = {64, 2, 64, 2, 1, 1, true, false, false, 40, 232, false, true};
};
using Hopper64Mid = Hopper64;
using Hopper128 = Hopper64;
using Hopper256 = Hopper64;
using Hopper256Short = Hopper64;
struct Hopper64Scored {
  static constexpr HopperSpec kSpec = {64, 2, 64, 2, 2, 1, true, true, true, 40, 232, true, true};
};
using Hopper128Scored = Hopper64Scored;
using Hopper64Lengths = Hopper64;
using Hopper128Lengths = Hopper64;
using Hopper256Lengths = Hopper64Short;

// K and V of the heads that are worked on side by side, in bytes: so few that there are several sections.
inline constexpr int64_t kHopperSection = 16 << 10;

}  // namespace attn
