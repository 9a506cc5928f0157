// The running softmax of a warp's rows, in two parts. The maxima need a whole tile of scores. The probabilities
// are computed 16 keys at a time, while the products of the previous 16 keys run. The arithmetic is that of
// ../../forward/online_softmax.h.
#pragma once

#include "kernels/forward/online_softmax.h"
#include "kernels/primitives/types.h"

namespace attn {

// The state of 16 M rows. A thread holds two of each 16 rows.
template <int M>
struct SoftmaxRows {
  float mu[M][2];         // row max times sigma
  float sum[M][2] = {};   // sums of this thread's columns only, until finish_rows()
  float reference[M][2];  // mu, or 0 for a row that has seen no key yet
  float alpha[M][2];      // the factor that rescales accumulator and sum

  __device__ __forceinline__ SoftmaxRows() {
#pragma unroll
    for (int m = 0; m < M; ++m) mu[m][0] = mu[m][1] = neg_inf();
  }
};

// The maxima of two rows of a tile. With kNan, the maximum is NaN if a score is NaN; without it, NaNs are
// ignored.
template <bool kNan, int N>
__device__ __forceinline__ void find_maxima(const float (&s)[N][4], float (&row_max)[2]) {
  const auto larger = [](float a, float b) { return kNan ? fmax_nan(a, b) : fmax(a, b); };
  // Two independent chains of maxima per row hide the latency of each.
  float most[2][2];
#pragma unroll
  for (int e = 0; e < 4; ++e) most[e / 2][e % 2] = s[0][e];
#pragma unroll
  for (int n = 1; n < N; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) most[e / 2][e % 2] = larger(most[e / 2][e % 2], s[n][e]);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) row_max[r] = larger(most[r][0], most[r][1]);
  if constexpr (kNan) {
    quad_max_nan(row_max);
  } else {
    quad_max(row_max);
  }
}

// Updates the state of rows 16 m..16 m + 15 with their new maxima `mu`.
template <int M>
__device__ __forceinline__ void take_rows(const float (&mu)[2], int m, SoftmaxRows<M>& rows) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    rows.reference[m][r] = mu[r] == neg_inf() ? 0.0f : mu[r];
    rows.alpha[m][r] = ex2(rows.mu[m][r] - rows.reference[m][r]);
    rows.mu[m][r] = mu[r];
  }
  check_quad_agrees(rows.mu[m]);
}

// Takes in the maxima of one tile of scores.
template <int M, int N>
__device__ __forceinline__ void take_maxima(const float (&s)[M][N][4], float sigma, SoftmaxRows<M>& rows) {
#pragma unroll
  for (int m = 0; m < M; ++m) {
    float mu[2];
    find_maxima<false>(s[m], mu);
#pragma unroll
    for (int r = 0; r < 2; ++r) mu[r] = fmax(rows.mu[m][r], mu[r] * sigma);
    take_rows(mu, m, rows);
  }
}

// Takes in the maxima of a tile of rough scores (rough_biased() in ../../forward/score_terms.h). settle()
// corrects the scores. It is called if the maximum of any row of the warp is NaN or not above lowest(). In
// other rows, the scores that it would change have a probability of 0 either way.
template <int M, int N, class Settle>
__device__ __forceinline__ void take_rough_maxima(const float (&s)[M][N][4], float sigma, SoftmaxRows<M>& rows,
                                                  Settle settle) {
  float mu[M][2];
  bool right = true;
#pragma unroll
  for (int m = 0; m < M; ++m) {
    find_maxima<true>(s[m], mu[m]);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      mu[m][r] = fmax_nan(rows.mu[m][r], mu[m][r] * sigma);
      right &= mu[m][r] > lowest();
    }
  }
  if (ballot(!right) != 0) [[unlikely]] {
    settle();
    take_maxima(s, sigma, rows);
    return;
  }
#pragma unroll
  for (int m = 0; m < M; ++m) take_rows(mu[m], m, rows);
}

// Computes the probabilities of keys 16 k..16 k + 15 of a tile, both as A operands and in the place of their
// scores.
template <class T, int M, int N>
__device__ __forceinline__ void make_probabilities(float (&s)[M][N][4], int k, float sigma,
                                                   SoftmaxRows<M>& rows, uint32_t (&p)[M][4]) {
#pragma unroll
  for (int m = 0; m < M; ++m) {
    float x[2][4];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        x[n][e] = ex2(fma(s[m][2 * k + n][e], sigma, -rows.reference[m][e / 2]));
        add_to_sum(rows.sum[m][e / 2], x[n][e], rows.alpha[m][e / 2], k == 0 && n == 0 && e % 2 == 0);
        s[m][2 * k + n][e] = x[n][e];
      }
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) p[m][e] = pack2<T>(x[e / 2][e % 2 * 2], x[e / 2][e % 2 * 2 + 1]);
  }
}

template <int M, int N>
__device__ __forceinline__ void rescale_rows(float (&o)[M][N][4], const SoftmaxRows<M>& rows) {
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) o[m][n][e] *= rows.alpha[m][e / 2];
    }
  }
}

// The results of rows 16 m..16 m + 15. `sink`: the value of sink_of().
template <int M>
__device__ __forceinline__ void finish_rows(SoftmaxRows<M>& rows, int m, float sink, RowResult (&result)[2]) {
  float(&sum)[2] = rows.sum[m];
  quad_sum(sum);
  check_quad_agrees(sum);
#pragma unroll
  for (int r = 0; r < 2; ++r) result[r] = result_of(rows.mu[m][r], sum[r], sink);
}

}  // namespace attn
