// Small instantiations that have between them all that the sm_90a path's have: one without overlap, one whose O
// leaves through K and V, one of more columns than a panel has.
#pragma once

#include "kernels/fa1/hopper/spec.h"

namespace attn {

struct Hopper64 {
  static constexpr HopperSpec kSpec = {64, 2, 64, 2, 2, 1, true, true, true, 40, 232, false, true};
};
struct Hopper64Mid {
  static constexpr HopperSpec kSpec = {64, 2, 64, 2, 2, 1, false, false, false, 40, 232, false, true};
};
struct Hopper64Short {
  static constexpr HopperSpec kSpec = {64, 2, 64, 2, 1, 1, true, false, false, 40, 232, false, true};
};
struct Hopper128 {
  static constexpr HopperSpec kSpec = {128, 2, 64, 2, 2, 1, true, true, true, 40, 232, false, true};
};
using Hopper256 = Hopper64;
using Hopper256Short = Hopper64;
struct Hopper64Scored {
  static constexpr HopperSpec kSpec = {64, 2, 64, 2, 2, 1, true, true, true, 40, 232, true, true};
};
using Hopper128Scored = Hopper64Scored;
using Hopper64Lengths = Hopper64;
using Hopper128Lengths = Hopper128;
using Hopper256Lengths = Hopper64Short;

// K and V of the heads that are worked on side by side, in bytes: so few that there are several sections.
inline constexpr int64_t kHopperSection = 16 << 10;

}  // namespace attn
