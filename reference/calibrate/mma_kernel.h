// Runs mma.m16n8k16 on matrices in memory. Block n, one warp, takes the n-th A (16x16, rows), B (8 columns
// of 16) and C (16x8, rows), and stores D in C.
#pragma once

#include "kernels/primitives/matrix.h"

namespace attn {

template <class T>
__global__ void mma_kernel(const T* a, const T* b, float* c) {
  const int64_t n = blockIdx.x;
  a += n * 256;
  b += n * 128;
  c += n * 128;
  const int g = lane_id() / 4, t = lane_id() % 4;
  const auto pair = [](const T* first) {
    return static_cast<uint32_t>(first[0].bits) | static_cast<uint32_t>(first[1].bits) << 16;
  };
  const uint32_t a_fragment[4] = {pair(a + g * 16 + 2 * t), pair(a + (g + 8) * 16 + 2 * t),
                                  pair(a + g * 16 + 2 * t + 8), pair(a + (g + 8) * 16 + 2 * t + 8)};
  const uint32_t b_fragment[2] = {pair(b + g * 16 + 2 * t), pair(b + g * 16 + 2 * t + 8)};
  float* const low = c + g * 8 + 2 * t;
  float* const high = low + 64;
  float sum[4] = {low[0], low[1], high[0], high[1]};
  mma16816<T>(sum, a_fragment, b_fragment);
  low[0] = sum[0];
  low[1] = sum[1];
  high[0] = sum[2];
  high[1] = sum[3];
}

}  // namespace attn
