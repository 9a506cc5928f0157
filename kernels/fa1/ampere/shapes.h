// The shapes for which the mma path of FA-1 is compiled. They were chosen by measurement:
// docs/results/tuning.md.
#pragma once

#include "kernels/fa1/ampere/spec.h"

namespace attn {

// True if fa1 has this path.
inline constexpr bool kAmpere = true;

struct Ampere64 {
  static constexpr AmpereSpec kSpec = {64, 4, 2, 64, true, 2};
};
struct Ampere128 {
  static constexpr AmpereSpec kSpec = {128, 4, 2, 64, false, 2};
};
// With a bias, there are not enough registers to keep Q, nor for tiles of more than 32 keys at 128 columns.
// With 32 keys, the shared memory of an A100 has room for three blocks and their biases, or for two at 128
// columns.
struct Ampere64Scored {
  static constexpr AmpereSpec kSpec = {64, 4, 2, 32, false, 3, true};
};
struct Ampere128Scored {
  static constexpr AmpereSpec kSpec = {128, 4, 2, 32, false, 2, true};
};

// Bytes of K and V of the heads of a section, which are worked on at the same time: over half of an H200's L2.
inline constexpr int64_t kAmpereSection = 32 << 20;

}  // namespace attn
