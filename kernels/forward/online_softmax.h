// The online softmax of a row, in powers of two (Milakov and Gimelshein 2018; FlashAttention, Dao et al. 2022).
//
// A row that has seen no key yet has mu = -inf. It must not compute exp(-inf - -inf), so a reference of 0
// stands in for mu until mu is finite, in the probabilities and in the rescale factor.
#pragma once

#include "kernels/forward/params.h"
#include "kernels/forward/sinks.h"
#include "kernels/primitives/agree.h"
#include "kernels/primitives/math.h"
#include "kernels/primitives/types.h"
#include "kernels/primitives/warp.h"

namespace attn {

// The state of two rows. A thread holds its part of them, as in the C fragments of mma.
template <int DV>
struct RowState {
  float o[DV / 8][4] = {};               // accumulator, not yet normalised
  float mu[2] = {neg_inf(), neg_inf()};  // row max times sigma
  float sum[2] = {0, 0};                 // sums of this thread's columns only, until finish()
};

// Adds a probability to the row sum. The first one of a tile also rescales the sum by `alpha`.
__device__ __forceinline__ void add_to_sum(float& sum, float p, float alpha, bool first) {
  sum = first ? fma(sum, alpha, p) : sum + p;
}

// Adds the scores of one tile to the state, and turns them into probabilities in place. Rescales the
// accumulator and the sum of each row by `alpha`.
template <int N, int DV>
__device__ void online_softmax(float (&s)[N / 8][4], float sigma, RowState<DV>& state, float (&alpha)[2]) {
  float row_max[2] = {neg_inf(), neg_inf()};
#pragma unroll
  for (int n = 0; n < N / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) row_max[e / 2] = fmax(row_max[e / 2], s[n][e]);
  }
  quad_max(row_max);

  float reference[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float mu = fmax(state.mu[r], row_max[r] * sigma);
    reference[r] = mu == neg_inf() ? 0.0f : mu;
    alpha[r] = ex2(state.mu[r] - reference[r]);
    state.mu[r] = mu;
  }
  check_quad_agrees(state.mu);
#pragma unroll
  for (int n = 0; n < N / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      s[n][e] = ex2(fma(s[n][e], sigma, -reference[e / 2]));
      add_to_sum(state.sum[e / 2], s[n][e], alpha[e / 2], n == 0 && e % 2 == 0);
    }
  }
#pragma unroll
  for (int n = 0; n < DV / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) state.o[n][e] *= alpha[e / 2];
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

// The result of a row.
struct RowResult {
  bool dead;      // no key was seen: O is 0 whatever the accumulator holds
  float inverse;  // what the accumulator is multiplied by: 1 / sum
  float lse;      // natural log
};

// The result of a row from the maximum and the sum over its keys, in powers of two. `sink`: the value of
// sink_of().
__device__ __forceinline__ RowResult result_of(float mu, float sum, float sink) {
  // A row that has seen a key has a probability near 1, so its sum is not 0. A sum of NaN is not 0 either.
  const bool dead = sum == 0;
  if (sink == neg_inf()) return {dead, dead ? 0.0f : rcp(sum), dead ? neg_inf() : (mu + lg2(sum)) * kLn2};
  // The sink is added last, like a tile of one key without a value.
  const float largest = fmax(mu, sink), alpha = dead ? 0.0f : ex2(mu - largest);
  const float total = fma(sum, alpha, ex2(sink - largest));
  return {dead, alpha * rcp(total), (largest + lg2(total)) * kLn2};
}

// The results of the thread's two rows. `sinks`: their values of sink_of().
template <int DV>
__device__ void finish(RowState<DV>& state, const float (&sinks)[2], RowResult (&result)[2]) {
  quad_sum(state.sum);
  check_quad_agrees(state.sum);
#pragma unroll
  for (int r = 0; r < 2; ++r) result[r] = result_of(state.mu[r], state.sum[r], sinks[r]);
}

// The same if there are no sinks, or if they are added later.
template <int DV>
__device__ void finish(RowState<DV>& state, RowResult (&result)[2]) {
  const float none[2] = {neg_inf(), neg_inf()};
  finish(state, none, result);
}

}  // namespace attn
