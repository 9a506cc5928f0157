// The scores of one row, and how far a kernel's may lie from each.
//
//   a_j = tau q.k_j;  a'_j = c tanh(a_j / c) with a softcap c, else a_j;  x_j = a'_j + b_j
//
//   delta_j = |tau| (gamma(d + 2 ceil(d/k_hw), u_a) sum_t |q_t k_jt| + d 2^-126)     the product q.k
//   R_j     = (m - x_j) + delta_j + max delta                                      how far below the maximum
//   e_j     = delta_j + (5u + 2 s_e) R_j + T(eps_e + 2u)                           scale, FMA, rescales
//           + 2u|x_j|                                        unless the scale is fused: the scaled score is rounded
//           + |tau| u_Q sum|q_t k_jt| + eta_Q sum|k_jt|      if the scale is folded into a 16-bit Q
//           + c(eps_t |tanh(a_j/c)| + 1.4u)                  with softcap
//           + 3u(|a'_j| + |b_j|) + u|x_j|                    with bias or softcap
//           + (6u + 2 s_e) R_j + 8u|m| + (3u + 2 s_e + eps_l) ln n + eps_l + gamma(n + 2T, u) + 2 eps_e
//                                                            with splits: weights from their LSEs
//
// with T rescales a row and s_e by what an exponential's error grows per unit of
// its argument (__expf): charged at R_j, once for the weight and once for all
// rescales, whose arguments add up to at most R_j.
//
// A fused scale subtracts a rounded mu = m sigma: all weights of the row are off
// by one factor, at most 2^(u (|m| + max delta) log2 e). It cancels in O, but not
// before P is rounded: from scores of 1e8 up an fp16 P is subnormal, then 0.
#ifndef ATTNFUZZ_REFERENCE_SCORES_H_
#define ATTNFUZZ_REFERENCE_SCORES_H_

#include <cstdint>
#include <vector>

#include "reference/error_model.h"
#include "reference/operands.h"

namespace attnfuzz {

struct RowScores {
  Buffer x;  // one a visible key
  Buffer e;
  Buffer absolute;  // sum_t |q_t k_jt|
  Buffer delta;
  Buffer tanh_size;  // |tanh(a_j / c)|, with softcap
  Buffer capped;     // |a'_j|, with softcap or bias
  double largest_delta = 0;
  double tiles = 1;      // T
  double misplaced = 1;  // that factor
};

enum class ScoreState : uint8_t {
  kBounded,
  kUnconstrained,  // an fp32 intermediate may overflow, or an input is infinite: any result is right
  kNaN             // a visible score is NaN, and so must the row be
};

// One query. bias is NULL or holds one value a key of `keys`. Indices in keys
// count from operands.first, ascending; n >= 1.
struct ScoreInput {
  const double* q;
  Purity q_purity;
  const int64_t* keys;
  int64_t n;
  const double* bias;
};
ScoreState row_scores(const ErrorModel& model, const Operands& operands, const ScoreInput& input,
                      RowScores* out);

}  // namespace attnfuzz

#endif  // ATTNFUZZ_REFERENCE_SCORES_H_
