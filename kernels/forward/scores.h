// From raw products to scores: scale, cap, bias and visibility, in registers.
#pragma once

#include "kernels/forward/params.h"
#include "kernels/primitives/math.h"
#include "kernels/primitives/types.h"

namespace attn {

// One query row as a thread sees it. A row beyond the last has an empty range.
struct RowView {
  int64_t b, h, i;
  KeyRange keys;
};

__device__ inline float load_bias(const ForwardParams& p, const RowView& row, int64_t j) {
  switch (p.bias_dtype) {
    case ATTN_F16:
      return to_float(p.bias.at<F16>(row.b, row.h, row.i)[j * p.bias.stride[3]]);
    case ATTN_BF16:
      return to_float(p.bias.at<BF16>(row.b, row.h, row.i)[j * p.bias.stride[3]]);
    default:
      return p.bias.at<float>(row.b, row.h, row.i)[j * p.bias.stride[3]];
  }
}

// The score of one visible or hidden pair; -inf exactly if hidden. Hidden means
// selected away, never added: whatever K or the bias holds there does not matter.
__device__ inline float general_score(const ForwardParams& p, const RowView& row, int64_t j, float product) {
  if (j < row.keys.begin || j >= row.keys.end) return neg_inf();
  if (p.has_mask && p.mask.at<uint8_t>(row.b, row.h, row.i)[j * p.mask.stride[3]] == 0) return neg_inf();
  float score;
  if (p.mode == ScoreMode::kFused) {
    score = product * p.sign;
  } else {
    score = product * p.scale;
    if (p.softcap > 0) score = p.softcap * tanh(score / p.softcap);
    if (p.bias_dtype != ATTN_NONE) {
      const float bias = load_bias(p, row, j);
      if (bias == neg_inf()) return neg_inf();
      score += bias;
    }
    const float scaled = score * kLog2e;
    // Only what is hidden may be -inf: a split of nothing but very low scores is not empty.
    score = scaled == neg_inf() ? lowest() : scaled;
  }
  return score;
}

// Turns the products of two rows (lane / 4 and 8 below it) with keys first_key..
// first_key + N into scores. `plain`: every pair is visible and kFused holds.
template <int N>
__device__ void make_scores(const ForwardParams& p, const RowView (&rows)[2], int64_t first_key, bool plain,
                            float (&s)[N / 8][4]) {
  if (plain) {
    if (p.sign < 0) {
#pragma unroll
      for (int n = 0; n < N / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) s[n][e] = -s[n][e];
      }
    }
    return;
  }
  const int64_t column = first_key + 2 * (lane_id() % 4);
#pragma unroll
  for (int n = 0; n < N / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) s[n][e] = general_score(p, rows[e / 2], column + 8 * n + e % 2, s[n][e]);
  }
}

}  // namespace attn
