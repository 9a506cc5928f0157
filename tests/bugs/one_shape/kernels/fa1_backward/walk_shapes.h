// Known bugs of fa1_backward are compiled in one small instantiation without the walks (kWalks). The compiler
// finds this header before the kernel's own. Bugs of the walks are bugs of fa1_backward_fused.
#pragma once

#include "kernels/fa1_backward/walk_spec.h"

namespace attn::backward {

inline constexpr bool kWalks = false;

struct Grad64 {
  static constexpr KeySpec kKeys = {64, 4, 1, 2, 1};
  static constexpr QuerySpec kQueries = {64, 32, 1};
};
struct Grad128 {
  static constexpr KeySpec kKeys = {128, 8, 2, 2, 1};
  static constexpr QuerySpec kQueries = {128, 32, 1};
};
// For devices with less shared memory a block. Only the fused kernel uses it.
struct Grad128Small {
  static constexpr KeySpec kKeys = {128, 4, 2, 1, 1};
  static constexpr QuerySpec kQueries = Grad128::kQueries;
};

}  // namespace attn::backward
