// Scores to probabilities in registers. As forward/online_softmax.h, but the
// accumulator is in the tensor core's hands meanwhile: the caller rescales it.
#pragma once

#include "kernels/fa1/hopper/params.h"
#include "kernels/forward/online_softmax.h"
#include "kernels/primitives/types.h"

namespace attn {

// Products to scores; -inf exactly where a key is hidden. `rows`: of this thread's two.
template <int M>
__device__ __forceinline__ void mask_scores(const HopperParams& p, const Keys (&rows)[2], int32_t first_key,
                                            float (&s)[M][4]) {
  const int32_t column = first_key + 2 * (lane_id() % 4);
  // Each of these is a branch of the whole block: most problems need the last alone.
  if (p.sign < 0) {
#pragma unroll
    for (int n = 0; n < M; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) s[n][e] = -s[n][e];
    }
  }
  if (p.windowed) {
#pragma unroll
    for (int n = 0; n < M; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) s[n][e] = 8 * n + e % 2 >= rows[e / 2].begin - column ? s[n][e] : neg_inf();
    }
  }
#pragma unroll
  for (int n = 0; n < M; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) s[n][e] = 8 * n + e % 2 < rows[e / 2].end - column ? s[n][e] : neg_inf();
  }
}

// Takes in the scores of one tile and turns them into probabilities in place.
// `alpha`: what the accumulator of each row is to be rescaled by; the sum has been.
template <int M, int D>
__device__ __forceinline__ void softmax_of_tile(float (&s)[M][4], float sigma, RowState<D>& state,
                                                float (&alpha)[2]) {
  // Two chains a row: one would wait for itself.
  float most[2][2];
#pragma unroll
  for (int e = 0; e < 4; ++e) most[e / 2][e % 2] = s[0][e];
#pragma unroll
  for (int n = 1; n < M; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) most[e / 2][e % 2] = fmax(most[e / 2][e % 2], s[n][e]);
  }
  float row_max[2] = {fmax(most[0][0], most[0][1]), fmax(most[1][0], most[1][1])};
  quad_max(row_max);

  float reference[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float mu = fmax(state.mu[r], row_max[r] * sigma);
    reference[r] = mu == neg_inf() ? 0.0f : mu;
    alpha[r] = ex2(state.mu[r] - reference[r]);
    state.mu[r] = mu;
    state.sum[r] *= alpha[r];
  }
  check_quad_agrees(state.mu);
#pragma unroll
  for (int n = 0; n < M; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      s[n][e] = ex2(fma(s[n][e], sigma, -reference[e / 2]));
      state.sum[e / 2] += s[n][e];
    }
  }
}

// Probabilities as the A operand of P V.
template <class T, int M>
__device__ __forceinline__ void pack_probabilities(const float (&s)[M][4], uint32_t (&p)[M / 2][4]) {
#pragma unroll
  for (int k = 0; k < M / 2; ++k) {
#pragma unroll
    for (int e = 0; e < 4; ++e)
      p[k][e] = pack2<T>(s[2 * k + e / 2][e % 2 * 2], s[2 * k + e / 2][e % 2 * 2 + 1]);
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
