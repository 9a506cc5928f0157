// Turns products into scores: applies the scale's sign, and sets hidden scores, and no others, to -inf.
#pragma once

#include "kernels/fa1/ampere/params.h"
#include "kernels/primitives/math.h"
#include "kernels/primitives/warp.h"

namespace attn {

// s[m][n][e] belongs to query my_row + 16 m + 8 (e / 2) and key first_key + 2 (lane % 4) + 8 n + e % 2. Each
// test compares a compile-time number with a number of the tile.
template <int M, int N>
__device__ __forceinline__ void mask_tile(const AmpereParams& p, const AmpereBlock& block, int32_t my_row,
                                          int32_t first_key, float (&s)[M][N][4]) {
  const int32_t key = first_key + 2 * (lane_id() % 4);
  const int32_t beyond_diagonal = key - my_row - block.shift;
  const auto select = [&](auto visible) {
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          s[m][n][e] = visible(8 * n + e % 2, 16 * m + 8 * (e / 2)) ? s[m][n][e] : neg_inf();
      }
    }
  };
  // Each condition is the same for the whole block.
  if (p.sign < 0) {
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) s[m][n][e] = -s[m][n][e];
      }
    }
  }
  if (p.first_hidden) {
    const int32_t least = -p.left - beyond_diagonal;
    select([&](int j, int i) { return j - i >= least; });
  }
  if (p.last_hidden) {
    const int32_t most = p.right - beyond_diagonal;
    select([&](int j, int i) { return j - i <= most; });
  }
  if (first_key + 8 * N > block.length) {
    const int32_t left = block.length - key;
    select([&](int j, int) { return j < left; });
  }
}

}  // namespace attn
