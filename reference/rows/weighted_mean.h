// The heart of the bound: a softmax-weighted mean, and how far a kernel's may lie from it.
//
// Given the exact scores x_j of a row, an allowance e_j for the error of each
// (scores.h), and the values, this computes
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
//   N_c   = sum w_j rho_j |v_jc - o_c|  +  sum [(r + s) w_j (1 + rho_j) + eta_P/l] |v_jc|
//           + [g_l (1 + rho_w) + 2^-126 n/l] |o_c|  +  (n + 2T) 2^-126/l  +  eta_S  +  eta_A
//           + eta_V (1 + u_P)(1 + g_v)(1 + g_m)
//   B1    = N_c / D
//   B2    = B1 + (e^(M C) - 1)(|o_c| + B1)            M = 0 unless S > 1 partials are merged and not normalised
//           C = 3u(|lam| + max e) + eps_l(1 + ln S) + 2u ln S + gamma(S + 3, u) + 2 eps_e
//   B3    = B2 + max(4u, eps_rcp + 2u)(|o_c| + B2)    the division by the sum
//           + 2 S 2^-126 max|v_jc|                    with splits: a weight of a partial may flush
//   B_c   = B3 + u_O(|o_c| + B3) + eta_O
//   B_lam = -ln D + 3u|m| + eps_l(1 + ln l) + 2u ln l + 3u|lam|
//
// The kernel's mean is (sum of perturbed w v) / (sum of perturbed w). Writing
// it as one exact quotient leaves no second-order remainder, and subtracting
// o_c inside the sum shows that moving all values together costs nothing: a
// constant V has no score error at all. (2u ln l is the product by ln 2 of a
// base-2 logarithm; 3u|lam| does not cover it where m and ln l cancel.)
//
// C is for merges that weigh partials by e^(LSE_s - LSE) and do not normalise
// again: the error of the rounded LSE is then a factor of the whole of O, which no
// cancellation removes, M = 1 time, or S times where they are merged one by one.
//
// Partials that are merged in 16 bits (u_M, eta_M; attn_plan.merge_format) are not divided by their sums:
// O = sum w_s O_s / sum w_s l_s, w_s = e^(m_s - max m). Rounded are each w_s, each w_s O_s, and both sums:
//
//   u_S     becomes (1 + u_S)(1 + u_M)^2 - 1, of |w_j v_jc| as before
//   N_c     grows by (eta_W/l) sum |v_jc|, for |O_s| is at most the sum of its keys' |v_jc|: a w_s that underflows
//           and by S eta_M e^(max delta)/l: products but one (the largest w_s is 1; S + 1 of fp32 partials), their sum
//   B2      grows by 2 u_M/(1 - u_M) (|o_c| + B2): that sum, and the one that it is divided by
//   eta_W = eta_M e^(max delta) (1 + u_S)(1 + r)
//
// with u_S as it has become, M = 0, and eta_M and eta_S, as eta_P, times what a fused scale misplaces. A sum
// that overflows is not excused. Of fp16 u_M = 2^-11, eta_M = 2^-25, of bf16 2^-8 and 2^-126.
//
// g_l = gamma(n + 2T, u), or where the sum's parts are declared, with L_t the weights up
// to tile t (of its split) and c_t the keys of it that one part takes,
//
//   g_l = compound(u (sum_t c_t L_t / l + 2T + parts - 1)),   and + gamma(S + 3, u) with splits
//
// A row sum of rounded P makes N and L of the same weights: eps_e then takes u_P in,
// r does without, and eta_P n/l stands beside g_l.
//
// Above 4096 keys that are added up consecutively the tensor core's g_m no longer
// multiplies sum w|v|, but the largest that the accumulator can have been (long_products()).
//
// **P known.** Where P's rounding is predicted (rounded_p.h) there is no u_P, and O lies
// about o^_c = sum_j c_j v_jc with c_j and its charge from there:
//
//   N_c = sum [charge_j + (u_V + s + g_S) c_j + (2 2^-126 e^(max delta) + eta_A)/l] |v_jc|  +  G_c (1 + 2g/(1 - g))
//         + lost |o^_c|  +  the constants above,   lost = rho_w + g_l(1 + rho_w) + common (1 + ...)
//   B1  = N_c / (1 - lost),   g_S = gamma(2S + 3, u)
//   G_c = sum_t g_t (|sum of c_j v_jc before tile t| + sum_t c_j |v_jc|),   g_t = u_p keys + u_s blocks of tile t
//
// G_c is the products' own rounding: each block errs relative to the accumulator as it is
// then. g = sum g_t pays for what the accumulator itself is off by. Of both bounds the
// one whose coefficients are smaller is used, a row at a time.
//
// eta_A = (16 u_p + u_s ceil(16/k_hw)) 2^-14 pays for fp16 subnormals among P and V, which are
// aligned by the exponent they are stored with.
//
// Where the denominator is not positive the scores are so uncertain that the
// weights mean nothing: the row is uninformative, and only the hull of its
// values is left, min v - pad <= O <= max v + pad.
//
// The sums over |v_jc| only bound. They are added up in fp32, and raised by what that may lose (products.h),
// wherever the numbers lie near enough to each other.
//
// The same algebra serves a row over its keys and a merge over its splits.
#pragma once

#include <algorithm>
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
  double o_scatter = 1, lse_scatter = 1;  // Reference says what they are
};

// g_t of one tile that a row sees keys of: those with indices [begin, end) in its list.
struct TileCost {
  int64_t tile;
  int64_t begin, end;
  double cost;
};

// A row of a block: first weighed by itself, then its values are added up together with
// those of the others. Buffers live on from row to row, so that rows do not allocate.
struct MeanRow {
  // Given.
  MeanTerms terms;
  std::span<const int64_t> keys;  // ascending, n >= 1
  KeyPlaces places;               // of the keys, in the block
  std::vector<TileCost> costs;    // in the order of work; only where P is known
  // Where the results go: one a column of the values. `rule` is written only where a sum
  // may overflow fp32 (the rest is the caller's); `exact`, if given, is o as it would be
  // if P were not rounded.
  double* o = nullptr;
  double* o_bound = nullptr;
  uint8_t* rule = nullptr;
  double* exact = nullptr;

  MeanResult result;

  // On the way. Buffers are indexed by position (key_block.h).
  Stored stored;
  double l = 0, rho_w = 0, denominator = 0;
  bool known = false;  // by the bound that knows P
  double common = 0;   // of RoundedP
  Buffer weight;       // w_j
  Buffer error;        // w_j rho_j
  Buffer centre;       // c_j, where P is known
  Buffer charge;       // all that is charged of |v_j| then
  // The same times a power of two, as floats for Values::sizes, and what sums of their products are times
  // too much. 0: they lie too far apart for that.
  std::vector<float> charge_sized;
  double sized_scale = 0;
};

// Scratch of one row.
struct MeanWork {
  Buffer weight, error, charge;
};

// Of the row's keys.
struct MeanInput {
  const double* x;       // scores
  const double* e;       // allowances
  const double* weight;  // e^(x - m)
  double largest;        // m
  double sum;            // l
  double largest_e;
};
// `rounded`, if given, is P as it is known; its centre lies where places.place_for(&row->centre) says.
void begin_mean(const KeyBlock& block, const Values& values, const MeanInput& input, const RoundedP* rounded,
                MeanWork* work, MeanRow* row);

// The results of rows that have begun.
void finish_means(const KeyBlock& block, const Values& values, std::span<MeanRow* const> rows);

}  // namespace attnfuzz
