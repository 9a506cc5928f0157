// Turns raw products into scores in registers: scale, cap, bias and visibility. Each step that the problem
// needs is one pass over a thread's scores without branches, so that loads and divisions of many scores
// overlap.
#pragma once

#include "kernels/forward/params.h"
#include "kernels/forward/slopes.h"
#include "kernels/primitives/math.h"
#include "kernels/primitives/types.h"
#include "kernels/primitives/warp.h"

namespace attn {

// One query row as a thread sees it. A row beyond the last has an empty range.
struct RowView {
  int64_t b, h, i;
  KeyRange keys;
  int64_t diagonal;
};

// A thread's scores of two rows (lane / 4 and 8 below it) and a tile of N keys, and the interval of keys that
// these rows see, mask aside, counted from the tile's first key.
template <int N>
struct TileScores {
  float (&s)[N / 8][4];
  int begin[2], end[2];

  __device__ bool sees(int r, int j) const { return j >= begin[r] && j < end[r]; }

  // Replaces each score by change(row, key, score).
  template <class Change>
  __device__ __forceinline__ void each(Change change) {
    const int column = 2 * (lane_id() % 4);
#pragma unroll
    for (int n = 0; n < N / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) s[n][e] = change(e / 2, column + 8 * n + e % 2, s[n][e]);
    }
  }
};

// A score as an exponent of two, for the softmax. It is never -inf, because -inf stands for a hidden score: a
// split whose scores are all very low is not empty.
__device__ __forceinline__ float exponent_of(float score) {
  const float scaled = score * kLog2e;
  return scaled == neg_inf() ? lowest() : scaled;
}

// The address of a row's element for `first_key`, in a tensor with an element for each pair of query and key.
template <class B>
__device__ __forceinline__ const B* row_of_pairs(const Strided& tensor, const RowView& row, int64_t first_key) {
  return tensor.at<const B>(row.b, row.h, row.i) + first_key * tensor.stride[3];
}

template <class B>
__device__ __forceinline__ float bias_of(B value) {
  return to_float(value);
}
__device__ __forceinline__ float bias_of(float value) { return value; }

// Adds the bias and turns scores into exponents. A bias of -inf hides a key, whatever the score. The bias of
// hidden keys is not read.
template <class B, int N>
__device__ void add_bias(const ForwardParams& p, const RowView (&rows)[2], int64_t first_key,
                         TileScores<N>& tile) {
  const B* at[2] = {row_of_pairs<B>(p.bias, rows[0], first_key), row_of_pairs<B>(p.bias, rows[1], first_key)};
  tile.each([&](int r, int j, float score) {
    const float bias = tile.sees(r, j) ? bias_of(at[r][j * p.bias.stride[3]]) : 0.0f;
    return bias == neg_inf() ? neg_inf() : exponent_of(score + bias);
  });
}

// Turns products into exponents: scales, caps and adds the bias.
template <int N>
__device__ void make_biased(const ForwardParams& p, const RowView (&rows)[2], int64_t first_key,
                               TileScores<N>& tile) {
  tile.each([&](int, int, float product) { return product * p.scale; });
  if (p.softcap > 0) tile.each([&](int, int, float score) { return p.softcap * tanh(score / p.softcap); });
  switch (p.bias_dtype) {
    case ATTN_NONE:
      return tile.each([](int, int, float score) { return exponent_of(score); });
    case ATTN_F16:
      return add_bias<F16>(p, rows, first_key, tile);
    case ATTN_BF16:
      return add_bias<BF16>(p, rows, first_key, tile);
    default:
      return add_bias<float>(p, rows, first_key, tile);
  }
}

// Turns products into exponents for ScoreMode::kGeneral: the exponents of make_biased() minus the slope terms.
template <int N>
__device__ void make_exponents(const ForwardParams& p, const RowView (&rows)[2], int64_t first_key,
                               TileScores<N>& tile) {
  make_biased(p, rows, first_key, tile);
  if (p.slopes.data == nullptr) return;
  const float slopes[2] = {slope_of(p.slopes, rows[0].b, rows[0].h), slope_of(p.slopes, rows[1].b, rows[1].h)};
  const int64_t away[2] = {rows[0].diagonal - first_key, rows[1].diagonal - first_key};
  tile.each([&](int r, int j, float exponent) { return sloped(exponent, slopes[r], away[r] - j); });
}

// Turns products with keys first_key..first_key + N - 1 into scores. Hidden scores, and only they, are -inf. A
// hidden score is replaced, never added to, so the contents of K and of the bias at hidden keys do not matter.
// `plain`: every pair is visible, and the mode is kFused.
template <int N>
__device__ void make_scores(const ForwardParams& p, const RowView (&rows)[2], int64_t first_key, bool plain,
                            float (&s)[N / 8][4]) {
  TileScores<N> tile = {s, {}, {}};
  if (plain) {
    if (p.sign < 0) tile.each([](int, int, float product) { return -product; });
    return;
  }
  const auto within = [&](int64_t key) {
    const int64_t at = key - first_key;
    return static_cast<int>(at < 0 ? 0 : at > N ? N : at);
  };
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    tile.begin[r] = within(rows[r].keys.begin);
    tile.end[r] = within(rows[r].keys.end);
  }
  if (p.mode == ScoreMode::kFused) {
    tile.each([&](int, int, float product) { return product * p.sign; });
  } else {
    make_exponents(p, rows, first_key, tile);
  }
  if (p.has_mask) {
    const uint8_t* at[2] = {row_of_pairs<uint8_t>(p.mask, rows[0], first_key),
                            row_of_pairs<uint8_t>(p.mask, rows[1], first_key)};
    tile.each([&](int r, int j, float score) {
      return tile.sees(r, j) && at[r][j * p.mask.stride[3]] != 0 ? score : neg_inf();
    });
  }
  tile.each([&](int r, int j, float score) { return tile.sees(r, j) ? score : neg_inf(); });
}

}  // namespace attn
