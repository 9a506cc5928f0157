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
//   r     = (1 + u_P)(1 + g_v)(1 + g_m) - 1           P rounded, rescales and merges, the products' sum
//   s     = u_S (1 + r) / D                           partials stored in 16 bits
//   N_c   = sum w_j rho_j |v_jc - o_c|  +  sum [(r + s) w_j (1 + rho_j) + eta_P/l] |v_jc|
//           + [g_l (1 + rho_w) + 2^-126 n/l] |o_c|  +  (n + 2T) 2^-126/l  +  eta_S
//   B1    = N_c / D
//   B2    = B1 + (e^C - 1)(|o_c| + B1)                C = 0 unless S > 1 partials are merged, then
//           C = 3u|lam| + eps_l(1 + ln S) + 2u ln S + gamma(S + 3, u) + 2 eps_e
//   B3    = B2 + max(4u, eps_rcp + 2u)(|o_c| + B2)    the division by the sum
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
// again, as is common: the error of the rounded LSE is then a factor of the
// whole of O, which no cancellation removes.
//
// Above 4096 keys the tensor core's g_m no longer multiplies sum w|v|, but the largest that the accumulator can
// have been (long_products()).
//
// Where the denominator is not positive the scores are so uncertain that the
// weights mean nothing: the row is uninformative, and only the hull of its
// values is left, min v - pad <= O <= max v + pad.
//
// The same algebra serves a row over its keys and a merge over its splits.
#ifndef ATTNFUZZ_REFERENCE_WEIGHTED_MEAN_H_
#define ATTNFUZZ_REFERENCE_WEIGHTED_MEAN_H_

#include <cstdint>
#include <vector>

#include "reference/expected.h"
#include "reference/operands.h"

namespace attnfuzz {

struct MeanTerms {
  double eps_exp = 0;         // eps_e
  double sum_gamma = 0;       // g_l: of the sum of weights
  double product_gamma = 0;   // g_v, of the weighted values: rescales and merges
  double mma_gamma = 0;       // g_m: the products' sum itself
  bool tensor_cores = false;  // that sum goes through consecutive keys
  double p_unit = 0;          // u_P
  double p_tiny = 0;          // eta_P, grown by e^(max delta) and by what a fused scale misplaces
  double rescales = 0;        // T
  double eps_log = 0;         // eps_l
  double eps_reciprocal = 0;  // eps_rcp
  double o_unit = 0;          // u_O
  double o_tiny = 0;          // eta_O
  double partial_unit = 0;    // u_S: u_O of partials kept in 16 bits
  double partial_tiny = 0;    // eta_S
  double merged = 0;          // S if partials were merged, else 0
  double hull_tiny = 0;  // eta_P without e^(max delta): in the hull all is relative to the computed weights
};

struct MeanResult {
  bool informative = true;  // false: o and o_bound are the hull, lse_bound is infinite
  bool unconstrained_column = false;
  double lse = 0;
  double lse_bound = 0;
};

// Scratch of one row, kept by the caller so that rows do not allocate.
struct MeanWork {
  Buffer weight, error, coefficient;
};

// Row over the n values with indices keys[0..n), n >= 1, of scores x and
// allowances e. Writes values.columns results to o, o_bound and column; the
// latter only where a sum may overflow fp32 (the rest is the caller's).
MeanResult weighted_mean(const MeanTerms& terms, const int64_t* keys, int64_t n, const double* x,
                         const double* e, const Values& values, MeanWork* work, double* o, double* o_bound,
                         uint8_t* column);

}  // namespace attnfuzz

#endif  // ATTNFUZZ_REFERENCE_WEIGHTED_MEAN_H_
