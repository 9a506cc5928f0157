// Biases and soft caps on the fast paths, whose threads hold whole tiles of scores and whose positions have 32
// bits. Turns products into exponents of two; scores.h does the same for the general path.
//
//   make_score_terms(problem, params, &terms);         host: false if the fast paths cannot take the problem (checks.h)
//   load_biases(terms, rows, first_key, words);        device: for each tile, before its products are done
//   change_scores(terms, rows, first_key, words, s);   device: when the products are done, before masking
//
// With a cap c, a score is tanh(product * (scale / c)) * c. A bias is added by an fma. A thread reads the bias
// of the scores that it holds, and two neighbouring keys as one word if the layout allows.
#pragma once

#include "kernels/forward/scores.h"
#include "kernels/forward/slopes.h"

namespace attn {

struct ScoreTerms {
  Strided bias;
  int32_t bias_dtype;    // attn_dtype, or ATTN_NONE
  int32_t seq_q, seq_k;  // rows and columns of the bias
  bool pairs;            // 16 bits, and keys 2 n and 2 n + 1 of a row are one aligned 4-byte word
  bool chunks;           // 16 bits, and keys 8 n..8 n + 7 of a row are one aligned 16-byte chunk
  bool capped;
  float inner, outer;  // a cap is tanh(product * inner) * outer; outer includes log2 e if no bias follows
  float scale;         // the factor of a product before the bias is added; 1 with a cap
};

// The address of a row's bias for key 0. A row past the last reads the last row's bias, and its result is not
// stored.
__device__ __forceinline__ const void* bias_row(const ScoreTerms& p, int32_t b, int32_t h, int32_t i) {
  const int64_t row = i < p.seq_q ? i : p.seq_q - 1;
  const int64_t at = b * p.bias.stride[0] + h * p.bias.stride[1] + row * p.bias.stride[2];
  return static_cast<const char*>(p.bias.data) + at * (p.bias_dtype == ATTN_F32 ? 4 : 2);
}

// An exponent before settled() corrects it. It is NaN if the bias is -inf and the product +inf or NaN, and -inf
// if the sum is below the lowest float.
__device__ __forceinline__ float rough_biased(float score, float scale, float bias) {
  return fma(score, scale, bias) * kLog2e;
}

// The exponent of a score whose bias is not -inf.
__device__ __forceinline__ float finite_biased(float score, float scale, float bias) {
  return fmax_nan(rough_biased(score, scale, bias), lowest());
}

// Turns the result of rough_biased() into that of biased().
__device__ __forceinline__ float settled(float rough, float bias) {
  const float exponent = fmax_nan(rough, lowest());
  return bias == neg_inf() ? neg_inf() : exponent;
}

// The exponent of a score. A bias of -inf hides the key, whatever the product is; no other bias does.
__device__ __forceinline__ float biased(float score, float scale, float bias) {
  const float exponent = finite_biased(score, scale, bias);
  return bias == neg_inf() ? neg_inf() : exponent;
}

// The bias of the first R of a thread's two rows and 8 N keys, two keys per word.
template <int R, int N>
struct BiasWords {
  uint32_t at[R][N];
};

// True if a tile's bias is loaded by words. It is not if the tile reaches past the tensor's keys.
template <int N>
__device__ __forceinline__ bool by_words(const ScoreTerms& p, int32_t first_key) {
  return p.pairs && first_key + 8 * N <= p.seq_k;
}

// Starts to load the bias of a tile, if it is loaded by words. `rows`: the addresses of R rows (bias_row()).
template <int R, int N>
__device__ __forceinline__ void load_biases(const ScoreTerms& p, const void* const* rows, int32_t first_key,
                                            BiasWords<R, N>& words) {
  if (!by_words<N>(p, first_key)) return;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const uint16_t* row = static_cast<const uint16_t*>(rows[r]) + (first_key + 2 * (lane_id() % 4));
#pragma unroll
    for (int n = 0; n < N; ++n) words.at[r][n] = reinterpret_cast<const uint32_t*>(row)[4 * n];
  }
}

// True if any bias of this warp's tile is -inf.
template <class B, int R, int N>
__device__ __forceinline__ bool any_hides(const BiasWords<R, N>& words) {
  uint32_t least = words.at[0][0];
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int n = 0; n < N; ++n) least = min2<B>(least, words.at[r][n]);
  }
  float lo, hi;
  unpack2<B>(least, lo, hi);
  return ballot(lo == neg_inf() || hi == neg_inf()) != 0;
}

// Replaces each score s[n][e] of the first R rows by change(s[n][e], its bias).
template <class B, int R, int N, class Change>
__device__ __forceinline__ void with_words(const BiasWords<R, N>& words, float (&s)[N][4], Change change) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      float bias[2];
      unpack2<B>(words.at[r][n], bias[0], bias[1]);
#pragma unroll
      for (int e = 0; e < 2; ++e) s[n][2 * r + e] = change(s[n][2 * r + e], bias[e]);
    }
  }
}

template <class B, int R, int N>
__device__ __forceinline__ void add_words(const ScoreTerms& p, const BiasWords<R, N>& words, float (&s)[N][4]) {
  if (any_hides<B>(words)) {
    with_words<B>(words, s, [&](float score, float bias) { return biased(score, p.scale, bias); });
  } else {  // the usual case, which saves two instructions per score
    with_words<B>(words, s, [&](float score, float bias) { return finite_biased(score, p.scale, bias); });
  }
}

// Adds a bias of any layout, 8 kAtOnce keys at a time. Keys past the tensor are hidden, so their bias is not
// read.
template <class B, int R, int N>
__device__ __forceinline__ void add_singles(const ScoreTerms& p, const void* const* rows, int32_t first_key,
                                            float (&s)[N][4]) {
  constexpr int kAtOnce = N % 4 == 0 ? 4 : 2;
  const int32_t key = first_key + 2 * (lane_id() % 4);
  const int64_t step = p.bias.stride[3];
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const B* at = static_cast<const B*>(rows[r]) + key * step;
#pragma unroll
    for (int first = 0; first < N; first += kAtOnce) {
      float bias[kAtOnce][2];
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n) {
        const int j = 8 * (first + n);
        bias[n][0] = key + j < p.seq_k ? bias_of(at[0]) : 0.0f;
        bias[n][1] = key + j + 1 < p.seq_k ? bias_of(at[step]) : 0.0f;
        at += 8 * step;
      }
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = s[first + n][2 * r + e];
          score = biased(score, p.scale, bias[n][e]);
        }
      }
    }
  }
}

// Applies the cap, or, without cap and bias, turns products into exponents. If there is only a bias, products
// do not change, because the fma that adds the bias applies the scale. The first 2 R of four entries of s are
// in use.
template <int R, int N>
__device__ __forceinline__ void cap_scores(const ScoreTerms& p, float (&s)[N][4]) {
  const auto each = [&](auto change) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int e = 0; e < 2 * R; ++e) s[n][e] = change(s[n][e]);
    }
  };
  if (p.capped) {
    each([&](float product) { return tanh(product * p.inner) * p.outer; });
  } else if (p.bias_dtype == ATTN_NONE) {
    each([&](float product) { return exponent_of(product * p.scale); });
  }
}

// Turns products of a tile into exponents. s[n][e] belongs to row rows[e / 2] and key first_key + 8 n + 2 (lane
// % 4) + e % 2. The first 2 R of four entries are in use. `words`: the bias that load_biases() has loaded
// for this tile.
template <int R, int N>
__device__ __forceinline__ void change_scores(const ScoreTerms& p, const void* const* rows, int32_t first_key,
                                              const BiasWords<R, N>& words, float (&s)[N][4]) {
  cap_scores<R>(p, s);
  const bool paired = by_words<N>(p, first_key);
  switch (p.bias_dtype) {
    case ATTN_NONE:
      return;
    case ATTN_F16:
      return paired ? add_words<F16>(p, words, s) : add_singles<F16, R>(p, rows, first_key, s);
    case ATTN_BF16:
      return paired ? add_words<BF16>(p, words, s) : add_singles<BF16, R>(p, rows, first_key, s);
    default:
      return add_singles<float, R>(p, rows, first_key, s);
  }
}

}  // namespace attn
