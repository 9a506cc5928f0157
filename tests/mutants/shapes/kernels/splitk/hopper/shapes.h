// Small instantiations of the decode path, of as many columns as a panel has and of more.
#pragma once

#include "kernels/splitk/hopper/spec.h"

namespace attn {

struct Decode64 {
  static constexpr DecodeSpec kSpec = {64, 64, 2, 2};
};
using Decode128 = Decode64;
struct Decode256 {
  static constexpr DecodeSpec kSpec = {256, 64, 2, 1};
};
struct Decode64Scored {
  static constexpr DecodeSpec kSpec = {64, 64, 2, 2, true};
};
struct Decode128Scored {
  static constexpr DecodeSpec kSpec = {128, 64, 2, 2, true};
};

}  // namespace attn
