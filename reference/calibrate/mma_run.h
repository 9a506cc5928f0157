// Runs a batch of 16x8x16 products on the device, by format and bits.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/calibrate/device.h"

namespace attn {

struct MmaBatch {
  // [mma][16 rows][16], [mma][8 columns][16], [mma][16 rows][8]
  std::vector<uint16_t> a, b;
  std::vector<float> c;
};

// Returns C + A B in the layout of c.
std::vector<float> run_mma(const MmaBatch& batch, bool bf16, const attn_env& env);

}  // namespace attn
