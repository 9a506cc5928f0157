// Small instantiations of the decode path; fast_paths.h says which. The compiler finds this
// header before the kernel's own.
#pragma once

#include <type_traits>

#include "kernels/fast_paths.h"
#include "kernels/splitk/hopper/hopper.h"

namespace attn {

struct Decode64 {
  static constexpr DecodeSpec kSpec = {64, 64, 2, 2};
};
struct Decode64Scored {
  static constexpr DecodeSpec kSpec = {64, 64, 2, 2, true};
};
// More columns than one panel has.
struct FourPanels {
  static constexpr DecodeSpec kSpec = {256, 64, 2, 1};
};
struct TwoPanelsScored {
  static constexpr DecodeSpec kSpec = {128, 64, 2, 2, true};
};

using Decode128 = Decode64;
using Decode256 = std::conditional_t<kEveryShape, FourPanels, Decode64>;
using Decode128Scored = std::conditional_t<kEveryShape, TwoPanelsScored, Decode64Scored>;

}  // namespace attn
