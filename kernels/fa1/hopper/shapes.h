// The shapes for which the sm_90a path of FA-1 is compiled. They were chosen by measurement: docs/results/tuning.md.
#pragma once

#include "kernels/fa1/hopper/hopper.h"

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

// Shapes with key lengths. If the shapes above had lengths, problems without lengths would lose 1 to 2 % at 64
// columns and at 512 keys. At 256 columns there are no registers left for tiles of 80 keys.
struct Hopper64Lengths {
  static constexpr HopperSpec kSpec = {64, 3, 128, 3, 2, 1, true, true, true, 32, 160, false, true};
};
struct Hopper128Lengths {
  static constexpr HopperSpec kSpec = {128, 2, 128, 2, 2, 1, true, true, true, 40, 232, false, true};
};
struct Hopper256Lengths {
  static constexpr HopperSpec kSpec = {256, 2, 64, 2, 1, 1, true, false, false, 40, 232, false, true};
};

// Shapes whose threads also hold a tile's bias in registers. At 256 columns O leaves no registers for a bias.
struct Hopper64Scored {
  static constexpr HopperSpec kSpec = {64, 2, 96, 4, 2, 1, true, true, true, 40, 232, true, true};
};
struct Hopper128Scored {
  static constexpr HopperSpec kSpec = {128, 2, 80, 3, 2, 1, true, true, true, 40, 232, true, true};
};

// The heads of a section are worked on at the same time. This is the size of their K and V in bytes: a quarter
// to a third of an H200's L2. The next section begins before this one has ended, and Q and O pass through the
// L2 as well.
inline constexpr int64_t kHopperSection = 16 << 20;

}  // namespace attn
