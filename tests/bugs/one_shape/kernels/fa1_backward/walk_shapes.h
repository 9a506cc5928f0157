// Known bugs are compiled in one small instantiation, without the fast way beside it: this header is found before the
// kernel's own.
#pragma once

#include "kernels/fa1_backward/walk_spec.h"

namespace attn::backward {

inline constexpr bool kWalks = false;

struct Grad64 {
  static constexpr KeySpec kKeys = {64, 4, 1, 1};
  static constexpr QuerySpec kQueries = {64, 32, 1};
};
using Grad128 = Grad64;

}  // namespace attn::backward
