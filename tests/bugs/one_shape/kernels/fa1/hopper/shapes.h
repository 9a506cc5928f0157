// Small instantiations of the sm_90a path; fast_paths.h says which. The compiler finds this
// header before the kernel's own.
#pragma once

#include <type_traits>

#include "kernels/fa1/hopper/hopper.h"
#include "kernels/fast_paths.h"

namespace attn {

// All features of the path except those of the instantiations below.
struct Hopper64 {
  static constexpr HopperSpec kSpec = {64, 2, 64, 2, 2, 1, true, true, true, 40, 232, false, true};
};
struct Hopper64Scored {
  static constexpr HopperSpec kSpec = {64, 2, 64, 2, 2, 1, true, true, true, 40, 232, true, true};
};
struct OneQueryStage {  // O is staged in the buffers of K and V, as at 256 columns
  static constexpr HopperSpec kSpec = {64, 2, 64, 2, 1, 1, true, false, false, 40, 232, false, true};
};
struct NoOverlap {
  static constexpr HopperSpec kSpec = {64, 2, 64, 2, 2, 1, false, false, false, 40, 232, false, true};
};
struct TwoPanels {  // more columns than one panel has
  static constexpr HopperSpec kSpec = {128, 2, 64, 2, 2, 1, true, true, true, 40, 232, false, true};
};

using Hopper64Mid = std::conditional_t<kEveryShape, NoOverlap, Hopper64>;
using Hopper64Short = std::conditional_t<kCausalShape, OneQueryStage, Hopper64>;
using Hopper128 = std::conditional_t<kEveryShape, TwoPanels, Hopper64>;
using Hopper256 = Hopper64;
using Hopper256Short = Hopper64;
using Hopper128Scored = Hopper64Scored;
using Hopper64Lengths = Hopper64;
using Hopper128Lengths = Hopper128;
using Hopper256Lengths = Hopper64Short;

// Bytes of K and V of the heads in one section. The number is small, so that a small problem has several
// sections.
inline constexpr int64_t kHopperSection = 16 << 10;

}  // namespace attn
