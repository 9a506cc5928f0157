// What the sm_90a path of FA-1 is compiled for, and which problem takes which.
// Measured choices: docs/results/tuning.md.
#pragma once

#include "kernels/fa1/hopper/spec.h"

namespace attn {

struct Hopper64 {
  static constexpr HopperSpec kSpec = {64, 3, 128, 3, 2, 1, true, true, true, 32, 160};
};
struct Hopper64Mid {
  static constexpr HopperSpec kSpec = {64, 4, 64, 4, 2, 1, true, false, true, 32, 112};
};
struct Hopper64Short {
  static constexpr HopperSpec kSpec = {64, 2, 64, 4, 2, 2, false, false, false, 32, 104};
};
struct Hopper128 {
  static constexpr HopperSpec kSpec = {128, 2, 128, 2, 2, 1, true, true, true, 40, 232};
};
struct Hopper256 {
  static constexpr HopperSpec kSpec = {256, 2, 80, 2, 1, 1, true, false, false, 40, 232};
};
struct Hopper256Short {
  static constexpr HopperSpec kSpec = {256, 2, 64, 2, 1, 1, true, false, false, 40, 232};
};

// Key lengths have shapes of their own: in those above they cost others 1 to 2 % at 64 columns and with 512
// keys. At 256 columns no register is left for 80 keys.
struct Hopper64Lengths {
  static constexpr HopperSpec kSpec = {64, 3, 128, 3, 2, 1, true, true, true, 32, 160, false, true};
};
struct Hopper128Lengths {
  static constexpr HopperSpec kSpec = {128, 2, 128, 2, 2, 1, true, true, true, 40, 232, false, true};
};
struct Hopper256Lengths {
  static constexpr HopperSpec kSpec = {256, 2, 64, 2, 1, 1, true, false, false, 40, 232, false, true};
};

// Where a tile's bias is in registers as well; beside O of 256 columns there is no room for it.
struct Hopper64Scored {
  static constexpr HopperSpec kSpec = {64, 2, 96, 4, 2, 1, true, true, true, 40, 232, true, true};
};
struct Hopper128Scored {
  static constexpr HopperSpec kSpec = {128, 2, 80, 3, 2, 1, true, true, true, 40, 232, true, true};
};

// K and V of the heads that are worked on side by side, in bytes: a quarter of an H200's L2, for
// where one section ends another has begun, and Q and O pass through as well.
inline constexpr int64_t kHopperSection = 16 << 20;

}  // namespace attn
