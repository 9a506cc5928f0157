// The softmax of the fast paths, in registers. It does not touch the accumulator, because the tensor core may
// still write it; the caller rescales it later. (In online_softmax.h the softmax rescales it.) Positions have
// 32 bits.
#pragma once

#include "kernels/forward/online_softmax.h"
#include "kernels/primitives/types.h"

namespace attn {

// An interval of positions or of tile numbers: [begin, end).
struct Keys {
  int32_t begin, end;
};

// In the functions below a thread uses the first R of its two rows. With R = 1 a tile has at most 8 rows, and
// the code does not touch entries 2 and 3 of the fragments.

// Turns products into scores. Hidden scores, and only they, are -inf. `rows`: the keys that this thread's two
// rows see. Params has `sign`, and `windowed`, which is true if the first keys may be hidden.
template <int R = 2, class Params, int M>
__device__ __forceinline__ void mask_scores(const Params& p, const Keys (&rows)[2], int32_t first_key,
                                            float (&s)[M][4]) {
  const int32_t column = first_key + 2 * (lane_id() % 4);
  // Each condition is the same for the whole block. Most problems need only the last loop.
  if (p.sign < 0) {
#pragma unroll
    for (int n = 0; n < M; ++n) {
#pragma unroll
      for (int e = 0; e < 2 * R; ++e) s[n][e] = -s[n][e];
    }
  }
  if (p.windowed) {
#pragma unroll
    for (int n = 0; n < M; ++n) {
#pragma unroll
      for (int e = 0; e < 2 * R; ++e) {
        s[n][e] = 8 * n + e % 2 >= rows[e / 2].begin - column ? s[n][e] : neg_inf();
      }
    }
  }
#pragma unroll
  for (int n = 0; n < M; ++n) {
#pragma unroll
    for (int e = 0; e < 2 * R; ++e) {
      s[n][e] = 8 * n + e % 2 < rows[e / 2].end - column ? s[n][e] : neg_inf();
    }
  }
}

// Adds the scores of one tile to the state, and turns them into probabilities in place. `alpha`: the factor by
// which the caller rescales the accumulator of each row. The sum is rescaled here.
template <int R = 2, int M, int D>
__device__ __forceinline__ void softmax_of_tile(float (&s)[M][4], float sigma, RowState<D>& state,
                                                float (&alpha)[2]) {
  // Two independent chains of maxima per row hide the latency of each.
  float most[R][2], row_max[R], reference[R];
#pragma unroll
  for (int e = 0; e < 2 * R; ++e) most[e / 2][e % 2] = s[0][e];
#pragma unroll
  for (int n = 1; n < M; ++n) {
#pragma unroll
    for (int e = 0; e < 2 * R; ++e) most[e / 2][e % 2] = fmax(most[e / 2][e % 2], s[n][e]);
  }
#pragma unroll
  for (int r = 0; r < R; ++r) row_max[r] = fmax(most[r][0], most[r][1]);
  quad_max(row_max);

#pragma unroll
  for (int r = 0; r < R; ++r) {
    const float mu = fmax(state.mu[r], row_max[r] * sigma);
    reference[r] = mu == neg_inf() ? 0.0f : mu;
    alpha[r] = ex2(state.mu[r] - reference[r]);
    state.mu[r] = mu;
  }
  check_quad_agrees(state.mu);
#pragma unroll
  for (int n = 0; n < M; ++n) {
#pragma unroll
    for (int e = 0; e < 2 * R; ++e) {
      s[n][e] = ex2(fma(s[n][e], sigma, -reference[e / 2]));
      add_to_sum(state.sum[e / 2], s[n][e], alpha[e / 2], n == 0 && e % 2 == 0);
    }
  }
}

template <int D>
__device__ __forceinline__ void rescale(RowState<D>& state, const float (&alpha)[2]) {
#pragma unroll
  for (int n = 0; n < D / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) state.o[n][e] *= alpha[e / 2];
  }
}

}  // namespace attn
