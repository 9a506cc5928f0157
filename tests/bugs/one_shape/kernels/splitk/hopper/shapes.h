// Known bugs are compiled in one small instantiation: this header is found before the
// kernel's own.
#pragma once

#include "kernels/splitk/hopper/spec.h"

namespace attn {

struct Decode64 {
  static constexpr DecodeSpec kSpec = {64, 64, 2, 2};
};
using Decode128 = Decode64;
using Decode256 = Decode64;
struct Decode64Scored {
  static constexpr DecodeSpec kSpec = {64, 64, 2, 2, true};
};
using Decode128Scored = Decode64Scored;

}  // namespace attn
