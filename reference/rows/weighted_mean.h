// A softmax-weighted mean, and how far a kernel's result may lie from it: the core of the bound.
//
// Given the exact scores x_j of a row, an allowance e_j for the error of each (scores.h), and the values,
// this computes
//
//   m = max x,  l = sum e^(x_j - m),  lam = m + ln l,  w_j = e^(x_j - lam),  o_c = sum w_j v_jc
//
// and the bounds
//
//   rho_j = e^(e_j)(1 + eps_e) - 1                    what the kernel's weight may be off by, relatively
//   rho_w = sum w_j rho_j
//   D     = 1 - rho_w - g_l (1 + rho_w)               what is left of the sum of weights
//   r     = (1 + u_P)(1 + u_V)(1 + g_v)(1 + g_m) - 1  P and V rounded, rescales and merges, the products' sum
//   s     = u_S (1 + r) / D                           partials stored in 16 bits
//   N_c   = sum w_j rho_j |v_jc - o_c|  +  sum [(r + s) w_j (1 + rho_j) + h_j] |v_jc|,  h_j = eta_P/l (but see below)
//           + [g_l (1 + rho_w) + 2^-126 n/l] |o_c|  +  (n + 2T) 2^-126/l  +  eta_S  +  eta_A
//           + eta_V (1 + u_P)(1 + g_v)(1 + g_m)
//   B1    = N_c / D
//   B2    = B1 + (e^(M C) - 1)(|o_c| + B1)            M = 0 unless S > 1 partials are merged and not normalised
//           C = 3u(|lam| + min(max e, 1 - D)) + eps_l(1 + ln S) + 2u ln S + gamma(S + 3, u) + 2 eps_e
//   B3    = B2 + max(4u, eps_rcp + 2u)(|o_c| + B2)    the division by the sum
//           + 2 S 2^-126 max|v_jc|                    with splits: a weight of a partial may flush
//   B_c   = B3 + u_O(|o_c| + B3) + eta_O
//   B_lam = -ln D + 3u|m| + eps_l(1 + ln l) + 2u ln l + 3u|lam|
//
// The kernel's mean is (sum of perturbed w v) / (sum of perturbed w). Written as one exact quotient, it
// leaves no second-order remainder. Subtracting o_c inside the sum shows that moving all values together
// costs nothing: a constant V has no score error at all. (2u ln l is the product by ln 2 of a base-2
// logarithm; 3u|lam| does not cover it if m and ln l cancel.)
//
// C applies to merges that weigh partials by e^(LSE_s - LSE) and do not normalise again. The error of the
// rounded LSE is then a factor of all of O, which no cancellation removes: M = 1 time, or S times if
// partials are merged one by one. The kernel's LSE lies within max e of lam, as each weight does. It also lies
// within 1 - D: the computed sum is at most (1 + rho_w)(1 + g_l) of the exact one, and at least e^(-sum w_j
// e_j) (1 - g_l), where sum w_j e_j <= rho_w. A key far below the others has a large e_j and no weight, so 1 -
// D is then the smaller number. An LSE on the way may lie R below lam. Its error 3u(|lam| + R) counts e^-R
// times, so R adds at most u; gamma(S + 3, u) has as much to spare, as such a step adds two numbers.
//
// Partials that are merged in 16 bits (u_M, eta_M; attn_plan.merge_format) are not divided by their sums: O
// = sum w_s O_s / sum w_s l_s, w_s = e^(m_s - max m). Each w_s, each w_s O_s, and both sums are rounded:
//
//   u_S     becomes (1 + u_S)(1 + u_M)^2 - 1, of |w_j v_jc| as before
//   N_c     grows by (eta_W/l) sum |v_jc|, for |O_s| is at most the sum of its keys' |v_jc|: a w_s that underflows
//           and by S eta_M e^(max delta)/l: all products but one (the largest w_s is 1), and their sum; S + 1 times if
//           partials are in fp32
//   B2      grows by 2 u_M/(1 - u_M) (|o_c| + B2): that sum, and the one that it is divided by
//   eta_W = eta_M e^(max delta) (1 + u_S)(1 + r)
//
// with u_S as changed here, M = 0, and eta_M and eta_S, like eta_P, times what a fused scale misplaces. A
// sum that overflows is not excused. fp16 has u_M = 2^-11, eta_M = 2^-25; bf16 has 2^-8 and 2^-126.
//
// g_l = gamma(n + 2T, u). If the sum's parts are declared, with L_t the weights up to tile t (of its split)
// and c_t the keys of it that one part takes,
//
//   g_l = compound(u (sum_t c_t L_t / l + 2T + parts - 1)),   and + gamma(S + 3, u) with splits
//
// If the row sum adds rounded P, N and L have the same weights: eps_e includes u_P, r does not, and eta_P
// n/l is added to g_l.
//
// **Order of P's rounding** (attn_plan.p_order). In the normal range P's rounding costs u_P w_j, whether P is
// e^(x - m) or w_j. Below, it costs a multiple of P's least number:
//
//   unnormalised   h_j = eta_P/l: P is e^(x - m'), with a maximum m' of some keys of the row, so at most m but for its
//                  error. What is lost is multiplied by e^(m' - m) / l later. A number above m, which attn_max_rule does
//                  not allow, would cost more without limit.
//   normalised     h_j = (1 + r + s)(eta_F + min(eta_N, w_j (1 + rho_j))), for nothing is divided by l any more.
//                  eta_N = max(eta_P, 2^-126) of P itself: to nearest, P is rounded to 0 or errs by less than P. If
//                  it may be rounded up instead, eta_N is a part of eta_F.
//                  eta_F = 2^-126 e^(max delta) and what a fused scale misplaces, and eta_A.
//                  In the constants l is 1. Of a split, all of this counts e^(lam_split - lam) <= 1 times.
//   not known      the larger h_j, and the constants of normalised weights
//
// The row sum adds weights before they are rounded or divided, and loses nothing more. The division of each
// weight instead of O is one rounding, for which g_v has room: 2S + 3 are more than a row without or with
// merges takes.
//
// If more than 4096 keys are added consecutively, the tensor core's g_m multiplies the largest size that
// the accumulator can have had, not sum w|v| (long_products()).
//
// **P known.** If P's rounding is predicted (rounded_p.h), there is no u_P, and O lies
// near o^_c = sum_j c_j v_jc with c_j and its charge from there:
//
//   N_c = sum [charge_j + (u_V + s + g_S) c_j + (2 2^-126 e^(max delta) + eta_A)/l] |v_jc|  +  G_c (1 + 2g/(1 - g))
//         + lost |o^_c|  +  the constants above,   lost = rho_w + g_l(1 + rho_w) + common (1 + ...)
//   B1  = N_c / (1 - lost),   g_S = gamma(2S + 3, u)
//   G_c = sum_t g_t (|sum of c_j v_jc before tile t| + sum_t c_j |v_jc|),   g_t = u_p keys + u_s blocks of tile t
//
// G_c is the products' own rounding: each block errs relative to the accumulator at that time. g = sum g_t
// covers the accumulator's own error. Each row uses the one of the two bounds whose coefficients are
// smaller.
//
// eta_A = (16 u_p + u_s ceil(16/k_hw)) 2^-14 covers fp16 subnormals among P and V, which are aligned by the
// exponent they are stored with.
//
// A sink (scores.h) is one more weight w_s = e^(s - lam), with the value 0: l, lam, rho_w and the hull include
// it, and N_c grows by w_s rho_s |o_c|. w_s (1 + rho_s) is computed as e^(s - lam + e_s) (1 + eps_e): of a sink
// far below the keys w_s is 0 and rho_s is infinite. P's rounding is not predicted in such a row.
//
// If the denominator is not positive, the scores are so uncertain that the weights mean nothing. The row is
// uninformative, and only the hull of its values remains: min v - pad <= O <= max v + pad.
//
// The sums over |v_jc| serve as upper bounds. They are added in fp32 and raised by what that may lose
// (products.h), if the numbers' range allows it.
//
// The same algebra serves a row over its keys and a merge over its splits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/call/expected.h"
#include "reference/rows/key_block.h"
#include "reference/rows/operands.h"
#include "reference/rows/rounded_p.h"
#include "reference/rows/row_terms.h"

namespace attnfuzz {

struct MeanResult {
  bool informative = true;  // false: o and o_bound are the hull, lse_bound is infinite
  bool unconstrained_column = false;
  double lse = 0;
  double lse_bound = 0;
  double o_scatter = 1, lse_scatter = 1;  // see Reference
};

// g_t of one tile with keys that a row sees: indices [begin, end) of its list.
struct TileCost {
  int64_t tile;
  int64_t begin, end;
  double cost;
};

// A row of a block. It is first weighed by itself; then its values are summed together with those of the
// other rows. Buffers live from row to row, so that rows do not allocate.
struct MeanRow {
  // Inputs.
  MeanTerms terms;
  std::span<const int64_t> keys;  // ascending, n >= 1
  KeyPlaces places;               // of the keys, in the block
  std::vector<TileCost> costs;    // in the order of work; only if P is known
  // Results, one for each column of the values. `rule` is written only if a sum may overflow fp32; the caller
  // writes the rest. `exact`, if given, is o as if P were not rounded.
  double* o = nullptr;
  double* o_bound = nullptr;
  uint8_t* rule = nullptr;
  double* exact = nullptr;

  MeanResult result;

  // Intermediates. Buffers are indexed by position (key_block.h).
  Stored stored;
  double l = 0, rho_w = 0, denominator = 0;
  bool known = false;  // the bound that knows P is used
  bool has_sink = false;
  double common = 0;   // from RoundedP
  Buffer weight;       // w_j
  Buffer error;        // w_j rho_j
  Buffer centre;       // c_j, if P is known
  Buffer charge;       // everything that is then charged for |v_j|
  // The charge times a power of two, as floats for Values::sizes; sized_scale is the factor of sums of their
  // products. 0: the range is too wide.
  std::vector<float> charge_sized;
  double sized_scale = 0;
};

// Scratch memory of one row.
struct MeanWork {
  Buffer weight, error, charge;
};

// Numbers of the row's keys.
struct MeanInput {
  const double* x;       // scores
  const double* e;       // allowances
  const double* weight;  // e^(x - m)
  double largest;        // m
  double sum;            // l
  double largest_e;
  bool has_sink = false;
  double sink = 0;                     // s
  double sink_weight = 0, sink_e = 0;  // RowScores
};
// `rounded`: P, if it is known; its centre lies where places.place_for(&row->centre) says.
void begin_mean(const KeyBlock& block, const Values& values, const MeanInput& input, const RoundedP* rounded,
                MeanWork* work, MeanRow* row);

// Computes the results of rows that begin_mean() prepared.
void finish_means(const KeyBlock& block, const Values& values, std::span<MeanRow* const> rows);

}  // namespace attnfuzz
