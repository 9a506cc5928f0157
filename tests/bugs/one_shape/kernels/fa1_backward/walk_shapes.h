// Known bugs are compiled in one small instantiation, those of fa1_backward without the fast way beside it: this header
// is found before the kernel's own. Bugs of the fast way are those of fa1_backward_fused.
#pragma once

#include "kernels/fa1_backward/walk_spec.h"

namespace attn::backward {

inline constexpr bool kWalks = false;

struct Grad64 {
  static constexpr KeySpec kKeys = {64, 4, 1, 1};
  static constexpr QuerySpec kQueries = {64, 32, 1};
};
struct Grad128 {
  static constexpr KeySpec kKeys = {128, 8, 2, 1};
  static constexpr QuerySpec kQueries = {128, 32, 1};
};

}  // namespace attn::backward
