// The scores of one row, and how far a kernel's may lie from each.
//
//   a_j = tau q.k_j;  a'_j = c tanh(a_j / c) with a softcap c, else a_j;  x_j = a'_j + b_j + t_j
//
//   delta_j = |tau| (A_j + d 2^-126)                                               the product q.k
//   A_j     = compound(d u_p + ceil(d/k_hw) u_s) sum_t |q_t k_jt|                  in any order
//           = c_16 (sum_blocks |sum of the blocks before| + sum_t |q_t k_jt|) / (1 - ceil(d/16) c_16)
//                                                            in blocks of 16 columns, ascending (dot_order),
//                                                            c_16 = 16 u_p + ceil(16/k_hw) u_s
//           + 2u|a_j|                                     if scores are multiplied by scales of 8-bit keys
//           + |tau| (u_D sum_t |q_t k_jt| + eta_D sum|q_t|)   if 8-bit keys are rounded first (kv_scales.h)
//   err_j   = delta_j                                        what the score itself may be off by
//           + 2u|x_j|                                        unless the scale is fused: the scaled score is rounded
//           + |tau| u_Q sum|q_t k_jt| + eta_Q sum|k_jt|      if the scale is folded into Q
//           + |tau| ((2 u_T + u_T^2) sum|q_t k_jt| + (1 + u_T) eta_T (sum|q_t| + sum|k_jt|) + d eta_T^2)
//                                                            if Q and K are converted, as to TF32
//           + c(eps_t |tanh(a_j/c)| + 1.4u)                  with softcap
//           + 3u(|a'_j| + |b_j|) + u|x_j|                    with bias, softcap or slopes
//           + 3u|t_j| + 2^-126 (1 + distance_j)              with slopes
//           + u(|a'_j| + |b_j| + |t_j|)                      with slopes and a bias: there are two additions
//   R_j     = (m - x_j) + delta_j + max delta                how far below the maximum
//   e_j     = err_j + (5u + 2 s_e) R_j + T(eps_e + 2u)       scale, FMA, rescales
//           + M [(6u + 2 s_e) R_j + 8u|m| + (3u + 2 s_e + eps_l) ln n + eps_l + 2 eps_e] + g_l
//                                                            with splits: weights from their LSEs
//           + 6u R_j + 2 s_e R_j + eps_e + 2u                or else from their maxima: one rescale more
//
// with T rescales a row (tile_walk.h); M the number of times that a weight goes through an LSE (once, or S
// times if merged one by one); g_l the row sum's error (weighted_mean.h); and s_e the growth of an
// exponential's error per unit of its argument (__expf). s_e is charged at R_j, once for the weight and
// once for all rescales, whose arguments add up to at most R_j.
//
// A tensor core aligns the terms of a block by the exponents of their factors. An fp16 subnormal is aligned
// by the exponent that it is stored with, -14, so in A_j a non-zero factor counts as 2^-14 at least
// (Calibration::mma_least_f16). If fp32 subnormals are flushed, those of bf16 may become 0: delta_j grows
// by |tau| 2^-126 (sum|k_jt| + sum|q_t|), and a subnormal scale may become 0 itself.
//
// If a bias is so large that it absorbs everything that is added to it (absorbed() in row_terms.h), all scores
// are the same number. That number is RowScores::shift; the other fields then describe scores of 0 without an
// error.
//
// A slope s (attn_problem.has_alibi) gives t_j = -s distance_j. The distance is an integer, so fp32 has it exactly
// up to 2^24; beyond, its rounding costs u|t_j| more. 3u|t_j| pay for a slope that is multiplied by log2 e or
// divided by the scale first (its constant and that product are rounded), and for the product with the distance. The
// sum is rounded by u|x_j|. If a bias is there as well, the sum of two of the three parts is rounded in any order,
// and is at most |a'_j| + |b_j| + |t_j|. A subnormal slope may be flushed, which takes 2^-126 for each key of
// distance, and so may the product.
//
// A sink s (attn_problem.has_sink) is a score without a key: m and the sum of weights include it. It may be
// taken in before, between or after the keys, so every row has one rescale and one addition more, and each addition
// may lose u of the whole sum. Its own error is
//
//   err_s   = 5u|s| + 2u(|m| + largest score of a key + max delta)     the last part if the scale may be fused:
//                                                    the keys' weights then have a common error, which s has not
//   e_s     as e_j above, with R_s = m - s + max delta
//
// If the LSE leaves the sink out, its bound is that of a row without the sink. A kernel's maximum M = max(m, s)
// may include the sink all the same. Each R_j then grows by M - m, one more rescale is taken, 3u|m| becomes
// 3u|M|, and ln l becomes lam - M. With n keys, M - m <= s - lam + ln n, so B_lam (weighted_mean.h) grows by
//
//   (8u + 2 s_e)(s - lam + ln n) + (eps_l + 2u) max(s - lam, 0) + eps_e + 2u - ln(1 - 2^-125 n e^(s - lam))
//
// With splits, the maxima of splits may include the sink, too. In each of M merges R_j and |m| grow by as much,
// and so does |ln l| of a split, so M (17u + 4 s_e + eps_l)(s - lam + ln n) are added.
//
// The last part of the sum is for weights that are flushed (of rounded P, eta_P is added to 2^-125). If they may
// be more than 2^-10 of the sum, nothing is added: such a kernel loses the LSE, and its maximum must not include the
// sink.
//
// A fused scale subtracts a rounded mu = m sigma. All weights of the row are then off by one factor, at
// most 2^(u (|m| + max delta) log2 e). It cancels in O, but not before P is rounded: for scores of 1e8 and
// more, an fp16 P becomes subnormal, then 0. Any other way to multiply a maximum and round it before the
// subtraction has the same effect.
#pragma once

#include <cstdint>

#include "reference/model/error_model.h"
#include "reference/rows/operands.h"
#include "reference/rows/tile_walk.h"

namespace attnfuzz {

struct RowScores {
  Buffer x;  // one for each visible key
  Buffer e;
  Buffer weight;  // e^(x_j - m)
  Buffer error;   // err_j
  Buffer delta;
  Buffer tanh_size;                  // |tanh(a_j / c)|, with softcap
  Buffer capped;                     // |a'_j|, with softcap, bias or slopes
  const double* absolute = nullptr;  // from ScoreInput
  double largest = 0;                // m, without `shift`
  double shift = 0;                  // added to all scores, exactly: a bias that absorbs them
  double least = 0;                  // min x
  double sum = 0;                    // of the weights, and of the sink's
  double sink_weight = 0;            // e^(s - m); 0: there is no sink
  double sink_e = 0;                 // e_s
  double largest_e = 0;
  double largest_delta = 0;
  double misplaced = 1;  // the factor of a fused scale
  TileWalk walk;
  double sum_gamma = 0;       // g_l of the splits' sums, without their merge
  double merge_constant = 0;  // what merging adds to e_j
  double merge_range = 0;     // ... and for each unit of R_j
};

enum class ScoreState : uint8_t {
  kBounded,
  kUnconstrained,  // an fp32 intermediate may overflow, or an input is infinite: any result is right
  kNaN             // a visible score is NaN, so the row must be NaN
};

// One query. bias is NULL or holds one value for each key of `keys`. Indices in keys count from
// operands.first, ascending; n >= 1. The products (products.h) have one number for each key, too.
struct ScoreInput {
  const double* q;
  Purity q_purity;
  const int64_t* keys;
  int64_t n;
  const double* bias;
  const double* dot;       // q.k_j
  const double* absolute;  // sum_t |q_t k_jt|
  const double* running;   // sum over blocks of |sum of the blocks before it|
  double sink = -kInfinity;  // a finite number, or -infinity: there is none
  const double* alibi = nullptr;     // t_j; NULL: there are no slopes
  const double* distance = nullptr;  // with `alibi`
};
ScoreState row_scores(const ErrorModel& model, const Operands& operands, const ScoreInput& input,
                      RowScores* out);

}  // namespace attnfuzz
