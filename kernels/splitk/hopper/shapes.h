// The shapes for which the decode path of Split-K is compiled. They were chosen by measurement: docs/results/tuning.md.
#pragma once

#include "kernels/splitk/hopper/hopper.h"

namespace attn {

struct Decode64 {
  static constexpr DecodeSpec kSpec = {64, 64, 4, 2};
};
struct Decode128 {
  static constexpr DecodeSpec kSpec = {128, 64, 3, 2};
};
struct Decode256 {
  static constexpr DecodeSpec kSpec = {256, 64, 2, 1};
};
struct Decode64Scored {
  static constexpr DecodeSpec kSpec = {64, 64, 4, 2, true};
};
struct Decode128Scored {
  static constexpr DecodeSpec kSpec = {128, 64, 3, 2, true};
};

}  // namespace attn
