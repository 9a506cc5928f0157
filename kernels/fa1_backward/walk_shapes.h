// The shapes for which the fast way of the backward pass is compiled.
#pragma once

#include "kernels/fa1_backward/walk_spec.h"

namespace attn::backward {

// True if fa1_backward has this way.
inline constexpr bool kWalks = true;

struct Grad64 {
  static constexpr KeySpec kKeys = {64, 4, 1, 2, 2};
  static constexpr QuerySpec kQueries = {64, 64, 2};
};
// The registers of one warp cannot hold dK and dV of 32 keys and 128 columns, so two warps have half of the
// columns each.
struct Grad128 {
  static constexpr KeySpec kKeys = {128, 8, 2, 2, 1};
  static constexpr QuerySpec kQueries = {128, 32, 2};
};
// For devices with less shared memory per block. Only the fused kernel uses it.
struct Grad128Small {
  static constexpr KeySpec kKeys = {128, 4, 2, 1, 1};
  static constexpr QuerySpec kQueries = Grad128::kQueries;
};

}  // namespace attn::backward
