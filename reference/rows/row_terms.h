// The parts of a row's bound that are single numbers, written once for the host's oracle and the GPU's
// (cuda/). Each oracle computes the vectors over keys and columns itself, from the same formulas: scores.h,
// tile_walk.h, rounded_p.h, weighted_mean.h, whose symbols are used here. Plain C++: no Eigen, no
// containers.
//
//   const double g_l = sum_error(model, T, lost / all);
//   const MeanTerms terms = mean_terms(model, {T, g_l, misplaced, max delta}, costs);
//   const double lost = lost_of(terms, rho_w, n, l);
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "reference/model/error_model.h"

namespace attnfuzz {

// ---------------------------------------------------------------- scores (scores.h)

// |x|, with non-zero values raised to `least`: how a tensor core aligns a factor.
ATTN_BOTH inline double counted(double x, double least) { return x == 0 ? 0 : std::max(std::abs(x), least); }

// log2 of the largest P if no weight is misplaced. P is 1, with the errors of the exponential and of the
// product with P's scale. If the maximum may lag, P is larger but fits its format (attn_max_rule); then a
// factor of two is allowed if the format holds it.
ATTN_BOTH inline double p_reach(const ErrorNumbers& model) {
  const double once = std::log2((1 + model.eps_exp + model.eps_exp_slope + 2 * kU) * (1 + 2 * kU));
  const bool lags = model.max_rule == ATTN_MAX_UNKNOWN && model.p_overflow >= 2;
  return lags ? std::max(once, 1.0) : once;
}

// True if fp32 arithmetic may overflow on the way to these scores. A key far below a moderate maximum is
// harmless if scores are scaled before the subtraction: its weight is 0. Keys that are all equally low are
// harmless, too, like those of a row that a bias of the lowest finite number should mask: their weights are
// equal (`level`; absorbed() says when that is certain). If scale and subtraction are one multiply-add, a
// tile or a split may hold low keys alone. Its maximum is rounded, exp2(fma(s, sigma, -mu)) may be
// infinite, and a later weight of 0 turns that into NaN. Only large products excuse this: of low biases, the
// contract forbids it (ATTN_SCALE_SEPARATE_FMA).
ATTN_BOTH inline bool overflows(const ErrorNumbers& model, double most_absolute, double most_capped, double m,
                                bool level, double misplaced) {
  constexpr double kScore = kOverflow / std::numbers::log2e;
  if (!(most_absolute < kOverflow) || !(most_absolute * std::abs(model.scale) < kScore)) return true;
  if (!(std::abs(m) < kScore) && !(level && m < 0 && -m <= std::numeric_limits<float>::max())) return true;
  if (!(most_capped < kScore)) return true;
  constexpr double kMostMisplaced = 60;  // log2
  const double of_tile = kU * most_absolute * std::abs(model.scale) * std::numbers::log2e;
  if (model.may_be_fused && of_tile >= kMostMisplaced) return true;
  // A softcap that may be flushed divides by 0.
  if (model.flushes && model.softcap > 0 && model.softcap < kFlush) return true;
  // Weights that are misplaced too far overflow, even sooner if P's format has a small range.
  return misplaced >= kMostMisplaced || misplaced + p_reach(model) >= std::log2(model.p_overflow);
}

// The error of a slope's part of a score, t = -slope * distance, and of the addition that a bias beside it takes
// (scores.h). `capped`: |a'_j|.
ATTN_BOTH inline double alibi_error(double t, double distance, bool bias, double b, double capped) {
  constexpr double kExactInteger = 0x1p24;  // up to it an integer is a number of fp32
  const double size = std::abs(t), rounded = distance > kExactInteger ? 4 * kU : 3 * kU;
  return rounded * size + kFlush * (1 + distance) + (bias ? kU * (capped + std::abs(b) + size) : 0);
}

// True if every score of a row is the same number m in any kernel that rounds a score before it subtracts
// the maximum (ATTN_SCALE_SEPARATE). Every x_j is m in double, so all biases are. What is added to a bias,
// |a'_j| <= |tau| sum |q_t k_jt|, is at most an eighth of m's last place in double. Hence no order of the
// additions, fused or not, in fp32 or double, changes the sum. Then m log2 e is one number, too (or the
// most negative one if it overflows; attn_score_rule), and every weight is exp(0). O is then the plain mean
// of the values, as if all scores were 0. This applies from |m| = 2^24 on, where the usual bound charges a
// bias for its own rounding. It does not apply to splits that are weighed by their LSEs, because LSEs of
// that size do not say how many keys a split has.
ATTN_BOTH inline bool absorbed(const ErrorNumbers& model, double most_absolute, double largest_delta, double m,
                               double least) {
  if (model.may_be_fused || (model.splits > 1 && !model.merge_by_maximum)) return false;
  if (least != m || !(kU * std::abs(m) >= 1)) return false;
  return std::abs(model.scale) * most_absolute + largest_delta <= 0x1p-56 * std::abs(m);
}
// B_lam of such a row. `bound`: B_lam as if its scores were 0. Infinite if m log2 e overflows: the LSE then
// comes from the most negative number.
ATTN_BOTH inline double lse_bound_at(double bound, double m, double lam) {
  if (!(std::abs(m) < kOverflow / std::numbers::log2e)) return std::numeric_limits<double>::infinity();
  return bound + 3 * kU * (std::abs(m) + std::abs(lam));
}

// g_l without the merge. `lost`: the sum over tiles of the additions that one part takes there, times the
// sum up to there, relative to the whole. Used only if the sum's parts are declared.
ATTN_BOTH inline double sum_error(const ErrorNumbers& model, double rescales, double n, double lost) {
  if (model.sum_lanes <= 0) return gamma(n + 2 * rescales, kU);
  return compound((lost + 2 * rescales + static_cast<double>(model.sum_lanes) - 1) * kU);
}
// The additions that one part takes in a whole tile.
ATTN_BOTH inline double most_additions(const ErrorNumbers& model) {
  return std::ceil(static_cast<double>(model.tile_k) / static_cast<double>(model.sum_lanes));
}

// The merge of S partials weighs each by e^(LSE_s - LSE), with both LSEs rounded. This is its contribution to
// e_j without the part that grows with R_j. A merge by maxima is one more rescale.
ATTN_BOTH inline double merge_constant(const ErrorNumbers& model, double m, double n, double sum_gamma) {
  if (model.merge_by_maximum) return model.eps_exp + 2 * kU;
  const double ln_n = std::log(n);
  const double once = 6 * kU * std::abs(m) + model.eps_log * (1 + ln_n) + 2 * kU * (std::abs(m) + ln_n) +
                      2 * model.eps_exp + (kU + 2 * model.eps_exp_slope) * ln_n;
  return model.merge_rounds * once + sum_gamma;
}

// ---------------------------------------------------------------- tiles (tile_walk.h)

// A maximum's exact value, and the range in which the kernel's value lies.
struct Maximum {
  double exact = -std::numeric_limits<double>::infinity(), low = exact, high = exact;
  ATTN_BOTH void take(const Maximum& other) {
    exact = std::max(exact, other.exact);
    low = std::max(low, other.low);
    high = std::max(high, other.high);
  }
  ATTN_BOTH double uncertain(const ErrorNumbers& model) const {
    const double off = std::max(high - exact, exact - low);
    return model.may_be_fused ? off + kU * (std::abs(exact) + off) : off;
  }
};

// ---------------------------------------------------------------- P (rounded_p.h)

// Rounds numbers that are not negative to nearest, ties to even: to a format with `kept` significant bits
// whose subnormals are multiples of 2^quantum.
struct Rounding {
  int dropped;    // bits of a double's fraction that are dropped
  double normal;  // from here on numbers are normal
  double magic;   // adding it rounds to a multiple of 2^quantum

  ATTN_BOTH double operator()(double x) const {
    const uint64_t bits = std::bit_cast<uint64_t>(x);
    const uint64_t half = (uint64_t{1} << (dropped - 1)) - 1 + (bits >> dropped & 1);
    const double normal_result = std::bit_cast<double>((bits + half) & ~((uint64_t{1} << dropped) - 1));
    return x >= normal ? normal_result : (x + magic) - magic;
  }
};

ATTN_BOTH inline Rounding rounding_of(int32_t dtype) {
  if (dtype == ATTN_F16) return {52 - 10, 0x1p-14, 1.5 * 0x1p28};
  if (dtype == ATTN_F32) return {52 - 23, 0x1p-126, 1.5 * 0x1p-97};
  return {52 - 7, 0x1p-126, 1.5 * 0x1p-81};
}

// True if P can be predicted at all.
ATTN_BOTH inline bool p_is_predicted(const ErrorNumbers& model) {
  return model.p_predicted != ATTN_NONE && model.eps_exp < 0.0625;
}

// y of a tile; phi_t = e^y - 1. `off`: err(m_t) + err(m_split). `range`: m_split - m_t. `merge_range`: m -
// m_split + 2 max err. merge_constant and merge_slope: see scores.h.
ATTN_BOTH inline double uncertain_factor(const ErrorNumbers& model, double off, double rescales, double range,
                                         double merge_constant, double merge_slope, double merge_range) {
  const bool merged = model.splits > 1;
  double y = 0;
  if (merged || rescales > 0)
    y = off + rescales * (model.eps_exp + 2 * kU) + (5 * kU + model.eps_exp_slope) * (range + off);
  if (merged) y += merge_constant + merge_slope * merge_range;
  return y;
}

// The rounding of the keys of one tile.
struct KeyRounding {
  Rounding rounded;
  double scale, halved, per_range, exact, tau;  // halved: 1 / (2 scale), because a division is slow
  double flushed;                               // limit of p_j times P's scale
  double max, uncertain;                        // the tile's maximum and its uncertainty
  double factor, phi;                           // A_t / l, phi_t

  ATTN_BOTH KeyRounding(const ErrorNumbers& model, double max, double uncertain, double factor, double phi)
      : rounded(rounding_of(model.p_predicted)),
        scale(model.p_scale),
        halved(1 / (2 * model.p_scale)),
        per_range(5 * kU + model.eps_exp_slope),
        exact(model.eps_exp + (model.p_scale != 1 ? kU : 0) + 0x1p-46),
        tau(std::abs(model.scale)),
        flushed(kFlush * std::max(model.p_scale, 1.0)),
        max(max),
        uncertain(uncertain),
        factor(factor),
        phi(phi) {}
};
struct RoundedKey {
  double centre, charge;
  bool bad;  // too uncertain
};
// `p`: p_j times P's scale; err: err_j; absolute: sum |q_t k_jt|.
ATTN_BOTH inline RoundedKey round_key(const KeyRounding& tile, double p, double x, double err,
                                      double absolute) {
  const double off = err + tile.uncertain, range = tile.max - x;
  // The scores were summed in double, so they err by about 2^-50 of their size.
  const double h = off + tile.per_range * (range + off) + tile.exact +
                   0x1p-48 * (std::abs(x) + std::abs(tile.max) + tile.tau * absolute);
  const double low = p * (1 - h), high = p * (1 + h + h * h);
  const double below = tile.rounded(low < tile.flushed ? 0 : low), above = tile.rounded(high);
  const double middle = (below + above) * tile.halved, half = (above - below) * tile.halved;
  return {tile.factor * middle, tile.factor * (half + tile.phi * (middle + half)), !(h < 0.125)};
}

// ---------------------------------------------------------------- the mean (weighted_mean.h)

struct MeanTerms {
  double eps_exp = 0;           // eps_e
  double eps_weight = 0;        // eps_e in rho_j; it includes u_P if the sum adds rounded P
  double sum_gamma = 0;         // g_l: the sum of weights
  double product_gamma = 0;     // g_v: rescales and merges of the weighted values
  double mma_gamma = 0;         // g_m: the sum of the products itself
  bool consecutive = false;     // that sum goes through consecutive keys
  double p_unit = 0;            // u_P
  double p_tiny = 0;            // eta_P, times e^(max delta) and what a fused scale misplaces
  double rescales = 0;          // T
  double eps_log = 0;           // eps_l
  double eps_reciprocal = 0;    // eps_rcp
  double o_unit = 0;            // u_O
  double o_tiny = 0;            // eta_O
  double partial_unit = 0;      // u_S: u_O of partials in 16 bits, and of their weights
  double partial_tiny = 0;      // eta_S
  double partial_overflow = 0;  // |o_s| from here on may be an infinity; 0: not in 16 bits
  double merge_unit = 0;        // u_M
  double merge_tiny = 0;        // eta_M, without e^(max delta)
  double weight_tiny = 0;       // eta_M, times what makes a partial larger than its keys' |v|
  double merged = 0;            // S if partials were merged, else 0
  double merge_steps = 0;       // M
  double v_unit = 0;            // u_V
  double v_tiny = 0;            // eta_V
  double aligned_tiny = 0;      // eta_A
  double least_factor = 0;      // the 2^-14 in eta_A
  double flush = kFlush;        // the most that flushing a product of P.V may lose
  bool rounded_sum = false;     // the sum of weights adds rounded P
  double v_overflow = 0;        // |v| from here on is no number after conversion; 0: V is not converted
  double grown_by_delta = 1;    // e^(max delta)
  double misplaced = 1;         // factor by which a fused scale may multiply all weights of a row
  double hull_tiny = 0;   // eta_P without e^(max delta), because the hull is relative to the computed weights
  double tile_costs = 0;  // sum of g_t, if P is known
  double sink_error = 0;  // w_s rho_s of the row's sink: a weight whose value is 0
  // If weights may be normalised where they are rounded:
  int32_t p_order = ATTN_P_UNNORMALISED;
  double normalised_tiny = 0;   // eta_N, of which a key costs no more than its weight
  double normalised_fixed = 0;  // eta_F
};

// Numbers of the row's scores.
struct ScoreTerms {
  double rescales;   // T
  double sum_gamma;  // g_l of the splits' sums
  double misplaced;
  double largest_delta;
};

ATTN_BOTH inline MeanTerms mean_terms(const ErrorNumbers& model, const ScoreTerms& scores, double all_costs) {
  MeanTerms terms;
  const double T = scores.rescales;
  const double splits = static_cast<double>(model.splits);
  const bool merged = model.splits > 1;
  terms.eps_exp = terms.eps_weight = model.eps_exp;
  terms.sum_gamma = scores.sum_gamma + (merged ? gamma(splits + 3, kU) : 0);
  terms.product_gamma = gamma(2 * T + 2 * splits + 3, kU);
  terms.mma_gamma = compound(all_costs);
  terms.consecutive = model.tensor_cores && model.key_order != ATTN_KEYS_ANY;
  terms.p_unit = model.p_unit;
  terms.v_unit = model.v_unit;
  terms.v_overflow = model.v_overflow;
  terms.least_factor = model.least_value;
  terms.aligned_tiny = model.block_error(16) * model.least_value * model.aligned_growth;
  terms.flush = model.value_flush;
  terms.misplaced = scores.misplaced;
  terms.grown_by_delta = std::exp(scores.largest_delta);
  // alpha, O * alpha and the exponential itself may each flush a weight.
  terms.hull_tiny = (std::max(model.p_tiny, double{kFlush}) + kFlush) * scores.misplaced + terms.aligned_tiny;
  terms.p_tiny = terms.hull_tiny * terms.grown_by_delta;
  terms.p_order = model.p_order;
  if (model.p_order != ATTN_P_UNNORMALISED) {
    const double rounding = std::max(model.p_tiny, double{kFlush});
    (model.p_to_nearest ? terms.normalised_tiny : terms.normalised_fixed) = rounding;
    terms.normalised_fixed += kFlush * scores.misplaced * terms.grown_by_delta + terms.aligned_tiny;
  }
  if (model.rounded_sum) {
    terms.rounded_sum = true;
    terms.eps_weight = (1 + model.eps_exp) * (1 + model.p_unit) - 1;
    terms.p_unit = 0;
  }
  // The weights are rounded P.
  if (model.v_tiny > 0)
    terms.v_tiny = model.v_tiny * (1 + terms.p_unit) * (1 + terms.product_gamma) * (1 + terms.mma_gamma);
  terms.rescales = T;
  terms.eps_log = model.eps_log;
  terms.eps_reciprocal = model.eps_reciprocal;
  terms.o_unit = model.o_unit;
  terms.o_tiny = model.o_tiny;
  terms.partial_unit = model.partial_unit;
  terms.partial_tiny = model.partial_tiny;
  terms.partial_overflow = model.partial_overflow;
  terms.merge_unit = model.merge_unit;
  terms.merge_tiny = model.merge_tiny * scores.misplaced;
  if (model.merge_tiny > 0) terms.partial_tiny *= scores.misplaced;
  if (merged && model.merge_tiny > 0)
    terms.weight_tiny = terms.merge_tiny * terms.grown_by_delta * (1 + terms.partial_unit) *
                        (1 + model.p_unit) * (1 + terms.v_unit) * (1 + terms.product_gamma) *
                        (1 + terms.mma_gamma);
  terms.merged = merged ? splits : 0;
  terms.merge_steps = model.merge_steps;
  terms.tile_costs = all_costs;
  return terms;
}

// The terms of a row that is merged from the results of several sides (merged_rows.h).
ATTN_BOTH inline MeanTerms merged_terms(const ErrorNumbers& model, double sides) {
  MeanTerms terms;
  terms.eps_exp = terms.eps_weight = model.eps_exp;
  terms.sum_gamma = terms.product_gamma = gamma(sides + 3, kU);
  // Weights relative to the largest are divided by their sum; others are relative to that sum already.
  terms.p_tiny = terms.hull_tiny = 2 * kFlush * (model.merge_steps > 0 ? sides : 1);
  terms.merged = sides;
  terms.merge_steps = std::min(model.merge_steps, sides);
  terms.rescales = sides;
  terms.eps_log = model.eps_log;
  terms.eps_reciprocal = model.eps_reciprocal;
  terms.o_unit = model.o_unit;
  terms.o_tiny = model.o_tiny;
  return terms;
}
// e_s of a side with the LSE x; `most`: the largest LSE. If sides are merged one by one, a weight is rounded again at
// every merge.
ATTN_BOTH inline double merge_allowance(const ErrorNumbers& model, double x, double most, double sides) {
  const double rounds = std::min(model.merge_rounds, sides);
  return (5 * kU + 2 * model.eps_exp_slope) * (most - x) + sides * (model.eps_exp + 2 * kU) + 2 * model.eps_exp +
         rounds * 2 * kU * (std::abs(x) + std::abs(most));
}

// e^(M C) - 1: a factor common to all of O, from the LSE that weighs the partials. `lost`: lost_of(). A key far
// below the others makes largest_e large, but not `lost`.
ATTN_BOTH inline double merge_growth(const MeanTerms& terms, double lam, double largest_e, double lost) {
  if (terms.merge_steps == 0) return 0;
  const double ln_s = std::log(terms.merged), off = std::min(largest_e, lost);
  return std::expm1(terms.merge_steps * (3 * kU * (std::abs(lam) + off) + terms.eps_log * (1 + ln_s) +
                                         2 * kU * ln_s + gamma(terms.merged + 3, kU) + 2 * terms.eps_exp));
}

// The step from B1 to B_c, which all columns of a row share.
struct Stored {
  double merge = 0;    // e^(M C) - 1
  double flushed = 0;  // what flushed weights of partials may lose
  // Takes |o| and B1 as numbers or as vectors.
  template <class Number>
  ATTN_BOTH Number operator()(const MeanTerms& terms, const Number& o, Number bound) const {
    bound += merge * (o + bound);
    bound += terms.merge_unit * (o + bound);
    const double normalise = std::max(4 * kU, terms.eps_reciprocal + 2 * kU);
    bound += normalise * (o + bound) + flushed;
    return bound + terms.o_unit * (o + bound) + terms.o_tiny;
  }
};

// w_s rho_s of a sink with this weight and allowance e; `below`: s - lam. If e is large, w_s may be 0 where
// rho_s is infinite.
ATTN_BOTH inline double sink_error_of(double weight, double below, double e, double eps_weight) {
  if (e <= 0.125) return weight * (std::exp(e) * (1 + eps_weight) - 1);
  return std::max(0.0, std::exp(below + e) * (1 + eps_weight) - weight);
}

// 1 - D.
ATTN_BOTH inline double lost_of(const MeanTerms& terms, double rho_w, double n, double l) {
  const double tiny = terms.rounded_sum ? terms.p_tiny * n / l : 0;
  return rho_w + terms.sum_gamma * (1 + rho_w) + tiny;
}

// B_lam.
ATTN_BOTH inline double lse_bound_of(const MeanTerms& terms, double lost, double m, double l, double lam) {
  return -std::log1p(-lost) + 3 * kU * std::abs(m) + terms.eps_log * (1 + std::log(l)) + 2 * kU * std::log(l) +
         3 * kU * std::abs(lam);
}

// B_lam of a row that sees a sink s and no key.
ATTN_BOTH inline double lone_sink_bound(const ErrorNumbers& model, double s) {
  if (!(std::abs(s) < kOverflow / std::numbers::log2e)) return std::numeric_limits<double>::infinity();
  return 6 * kU * std::abs(s) + model.eps_log + 2 * model.eps_exp + 4 * kU;
}

// Returns by how much B_lam of an LSE without the sink s grows, if the maximum may include the sink (scores.h).
// `n`: the most keys.
ATTN_BOTH inline double sink_in_maximum(const ErrorNumbers& model, double lam, double s, double n) {
  const double above = s - lam, far = above + std::log(n);
  if (!(far > 0)) return 0;
  const double flushed = n * (2 * kFlush + (model.rounded_sum ? model.p_tiny : 0)) * std::exp(above);
  constexpr double kMostFlushed = 0x1p-10;
  if (!(flushed < kMostFlushed)) return 0;
  const double merges = model.splits <= 1 ? 0 : model.merge_by_maximum ? 1 : model.merge_rounds;
  return merges * (17 * kU + 4 * model.eps_exp_slope + model.eps_log) * far +
         (8 * kU + 2 * model.eps_exp_slope) * far + (model.eps_log + 2 * kU) * std::max(above, 0.0) +
         model.eps_exp + 2 * kU - std::log1p(-flushed);
}

// The possible misalignment of V's subnormals, including those that meet subnormals of P.
ATTN_BOTH inline double aligned_values(const MeanTerms& terms, double count, double l) {
  return terms.aligned_tiny * (1 + count * terms.least_factor / l);
}

// The underflow of products of partials with their weights, and of their sum. One of the weights is 1; its
// product is as good as the partial.
ATTN_BOTH inline double merged_tiny(const MeanTerms& terms) {
  const bool narrow = terms.merged == 0 || terms.partial_tiny > 0;
  return (std::max(terms.merged, 1.0) + (narrow ? 0 : 1)) * terms.merge_tiny;
}

// The part of a column's error that does not depend on its values.
ATTN_BOTH inline double constant_of(const MeanTerms& terms, double n, double l) {
  return (n + 2 * terms.rescales) * terms.flush / l + terms.partial_tiny + terms.v_tiny +
         merged_tiny(terms) * terms.grown_by_delta / l + aligned_values(terms, n, l);
}

// `lost` of a row whose P is known.
ATTN_BOTH inline double lost_of_known(double denominator, double common) {
  return 1 - denominator + common * (2 - denominator);
}

// Coefficients of the charge for |v_jc| if P is known.
struct KnownCharges {
  double relative;  // relative to c_j + its charge
  double tiny;      // for each key
};
ATTN_BOTH inline KnownCharges charges_of_known(const MeanTerms& terms, double lost, double l) {
  const double merges = gamma(2 * std::max(terms.merged, 1.0) + 3, kU);
  return {terms.v_unit + merges + terms.partial_unit * (1 + terms.mma_gamma) / (1 - lost),
          (2 * kFlush * terms.misplaced * terms.grown_by_delta + terms.aligned_tiny + terms.weight_tiny) / l};
}

// For a column: N_c = (charged + running) grown + of_o |o| + constant, B1 = N_c / (1 - lost).
struct KnownShares {
  double lost, grown, of_o, constant;
};
ATTN_BOTH inline KnownShares shares_of_known(const MeanTerms& terms, double lost, double n, double l) {
  const double costs = terms.tile_costs;
  return {lost, 1 + 2 * costs / (1 - costs), lost + kFlush * n / l, constant_of(terms, n, l)};
}

// With more keys, long_products() (mean_columns.cc) bounds the tensor core's share.
inline constexpr double kLongRow = 4096;

// The shares of a column whose P is not known.
struct PlainShares {
  bool long_row;
  double rounding;  // r, without g_m for a long row
  double partial;   // s
  double tiny;      // for each key, if its weight is rounded before it is divided by the sum
  double of_o, constant;
  double normalised_tiny, normalised_fixed;  // for each key, if after that

  // What is charged for |v_jc|. `weight`: w_j (1 + rho_j).
  ATTN_BOTH double charge(double weight) const {
    const double relative = rounding + partial;
    const double lost = normalised_fixed + std::min(normalised_tiny, weight);
    return relative * weight + std::max(tiny, (1 + relative) * lost);
  }
};
ATTN_BOTH inline PlainShares shares_of_plain(const MeanTerms& terms, double rho_w, double denominator, double n,
                                             double l) {
  PlainShares out;
  out.long_row = terms.consecutive && n > kLongRow;
  out.rounding = (1 + terms.p_unit) * (1 + terms.v_unit) * (1 + terms.product_gamma) *
                     (1 + (out.long_row ? 0 : terms.mma_gamma)) -
                 1;
  // A partial in 16 bits is rounded once more: u_O |o_s| is at most u_O of its |w v| terms.
  out.partial = terms.partial_unit * (1 + out.rounding) / denominator;
  out.tiny = terms.p_order == ATTN_P_NORMALISED ? 0 : (terms.p_tiny + terms.weight_tiny) / l;
  out.normalised_tiny = terms.normalised_tiny;
  out.normalised_fixed = terms.normalised_fixed;
  const double tiny = terms.rounded_sum ? terms.p_tiny : kFlush;
  out.of_o = terms.sum_gamma * (1 + rho_w) + tiny * n / l + terms.sink_error;
  // The products of normalised weights are not divided any more.
  out.constant = constant_of(terms, n, terms.p_order == ATTN_P_UNNORMALISED ? l : 1);
  return out;
}

// The relative widening of a hull beyond its values.
ATTN_BOTH inline double hull_spread(const MeanTerms& terms) {
  return (1 + terms.p_unit) * (1 + terms.v_unit) * (1 + terms.product_gamma) * (1 + terms.mma_gamma) /
             (1 - terms.sum_gamma) * (1 + terms.partial_unit) -
         1;
}
// The absolute widening, for values up to `most`.
ATTN_BOTH inline double hull_pad(const MeanTerms& terms, double spread, double most, double count) {
  const double tiny = terms.hull_tiny + (terms.merged > 0 ? terms.merge_tiny * (1 + spread) : 0);
  return spread * most + tiny * count * most + terms.partial_tiny + terms.v_tiny + merged_tiny(terms) +
         aligned_values(terms, count, 1);
}

// The bound of a hull that extends `half` to either side of its middle, with values up to `most`. Rounding
// acts on the value, which may lie anywhere in the hull, so the largest is charged. Infinite if nothing can
// be said: a pad may be infinite, and may be multiplied by 0.
ATTN_BOTH inline double hull_bound(const MeanTerms& terms, const Stored& stored, double half, double most,
                                   double count) {
  const double spread = hull_spread(terms);
  const double bound = half + stored(terms, most, hull_pad(terms, spread, most, count));
  return spread >= 0 && bound >= 0 ? bound : std::numeric_limits<double>::infinity();
}

// The factor by which a partial may exceed the largest of its values.
ATTN_BOTH inline double partial_growth(const MeanTerms& terms) {
  return (1 + terms.p_unit) * (1 + terms.v_unit) * (1 + terms.product_gamma) * (1 + terms.mma_gamma) /
         std::max(1 - terms.sum_gamma, 0.5);
}
// True if a column of a row with values up to `largest` may overflow and must be examined.
ATTN_BOTH inline bool may_overflow(const MeanTerms& terms, double grown, double count, double largest) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double nearly = std::min(terms.partial_overflow > 0 ? terms.partial_overflow / (2 * grown) : kInfinity,
                                 terms.v_overflow > 0 ? terms.v_overflow : kInfinity);
  return count * largest * terms.misplaced >= kOverflow / 2 || largest >= nearly;
}
// `sum`: sum_j w_j |v_jc|; `most`: the largest |v_jc| that the row sees.
ATTN_BOTH inline bool column_overflows(const MeanTerms& terms, double grown, double l, double sum,
                                       double most) {
  const bool partial = terms.partial_overflow > 0 && most * grown >= terms.partial_overflow;
  const bool value = terms.v_overflow > 0 && most >= terms.v_overflow;
  return !(sum * l * terms.misplaced < kOverflow) || partial || value;
}

}  // namespace attnfuzz
