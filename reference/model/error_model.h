// Turns a plan and a calibration into the numbers that the bound charges for.
//
// A kernel says in its plan how it computes; a calibration says how good the device's instructions are.
// Anything that the plan leaves open is taken at the loosest documented class, and named in `assumptions`.
// A verdict can then say how much of its bound is ignorance.
//
//   const ErrorModel model = make_error_model(problem, plan, documented());
//   const double products = model.score_gamma;      // for the terms of |sum q k|
//   for (const std::string& note : model.assumptions) ...
//
// Symbols are those of the derivation (weighted_mean.h, scores.h): u = 2^-24; gamma(m, w) = m w / (1 - m
// w).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/both.h"
#include "kernels/attention.h"
#include "reference/model/assumption.h"
#include "reference/model/calibration.h"

namespace attnfuzz {

inline constexpr double kU = 0x1p-24;         // half an ulp of fp32
inline constexpr double kFlush = 0x1p-126;    // the most that flushing subnormals can lose
inline constexpr double kOverflow = 0x1p127;  // an fp32 intermediate of this size may have overflowed
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The combined relative error of roundings whose sizes add up to `sum`; infinite if they could lose
// everything.
ATTN_BOTH inline double compound(double sum) {
  return sum < 1 ? sum / (1 - sum) : std::numeric_limits<double>::infinity();
}
// The error of m roundings with relative error w each.
ATTN_BOTH inline double gamma(double m, double w) { return compound(m * w); }

// Plain numbers, which a device can read.
struct ErrorNumbers {
  // Matrix products.
  bool tensor_cores = false;
  // Adding c <= k_hw products to an accumulator errs by (c u_p + u_s) of the largest term or sum.
  int64_t mma_block = 1;       // k_hw
  double product_unit = kU;    // u_p
  double sum_unit = 0;         // u_s
  double dim_qk = 0;           // d, for the underflow term
  double score_gamma = 0;      // compound(d u_p + ceil(d/k_hw) u_s)
  bool ascending_dot = false;  // Q.K has one accumulator that takes 16 columns after 16
  double score_block = 0;      // error of adding 16 columns (or d, if fewer)
  double least_factor = 0;     // a non-zero 16-bit factor of Q.K below this is aligned as if it had this size
  double least_value = 0;      // the same for a factor of P.V
  double flushed_factor = 0;   // a factor below this may count as 0
  ATTN_BOTH double block_error(double products) const {
    return products * product_unit + std::ceil(products / static_cast<double>(mma_block)) * sum_unit;
  }

  // The softmax.
  double scale = 0;            // tau, as fp32 holds it
  double softcap = 0;          // 0: none
  bool fused = false;          // exp2(fma(s, sigma, -mu))
  bool may_be_fused = false;   // ... or a maximum is multiplied, rounded and then subtracted in another way
  double folded_unit = 0;      // u_Q if the scale is folded into Q before rounding, else 0
  double folded_tiny = 0;      // that format's absolute error
  double folded_overflow = 0;  // where that format overflows; 0: not folded
  double factor_unit = 0;      // u_T and eta_T, if Q and K are converted
  double factor_tiny = 0;
  double factor_overflow = 0;  // limit of |q| and |k|; 0: they are not converted
  // K and V of 8 bits (rows/kv_scales.h), for the keys of one batch entry and KV head.
  bool narrow = false;         // ATTN_FEATURE_KV8
  int32_t kv_rule = ATTN_KV_RULE_UNKNOWN;
  double kv_unit = 0;          // u_D and eta_D of the format that codes times scales are rounded to
  double kv_tiny = 0;
  double kv_overflow = 0;
  double key_unit = 0;         // u_D and eta_D of K; 0: no key is rounded
  double key_tiny = 0;
  double key_overflow = 0;     // |k| from here on is no number after conversion; 0: K is not converted
  double scaled_unit = 0;      // 2u if a score is multiplied by its key's scale, else 0
  double least_key_scale = 1;  // the least scale of K, at most 1, if scores are multiplied by scales
  double product_flush = kFlush;  // the most that flushing a product of Q.K may lose
  double value_flush = kFlush;    // ... and of P.V
  double aligned_growth = 1;      // how much larger the misalignment of subnormals of P.V may be
  double eps_exp = 0;          // eps_e at argument 0
  double eps_exp_slope = 0;    // its growth per unit of |argument|
  double eps_log = 0;          // eps_l
  double eps_tanh = 0;         // eps_t
  double eps_reciprocal = 0;

  // Formats.
  double p_unit = 0;  // u_P
  double p_tiny = 0;  // eta_P of P itself, without its scale and without the flushing of alpha
  double p_overflow = kOverflow;
  double p_scale = 1;
  double v_unit = 0;  // u_V and eta_V, if V is converted
  double v_tiny = 0;
  double v_overflow = 0;     // limit of |v|; 0: V is not converted
  bool rounded_sum = false;  // the row sum adds rounded P
  bool p_to_nearest = true;  // rounding P costs at most P itself
  int32_t p_order = ATTN_P_UNNORMALISED;  // p_order_of()
  int32_t p_predicted =
      // the 16-bit dtype that P is rounded to, to nearest, if the plan says what is rounded
      ATTN_NONE;
  double o_unit = 0;        // u_O
  double o_tiny = 0;        // eta_O
  double overflow = 0;      // limit of O's format
  double partial_unit = 0;  // u_O of partials in 16 bits, else 0; also for weights in 16 bits
  double partial_tiny = 0;
  double partial_overflow = 0;  // limit of partials in 16 bits, else 0
  double merge_unit = 0;        // error of the quotient of the merged sums if they have 16 bits, else 0
  double merge_tiny = 0;        // eta_M of what these sums add

  // The order of work.
  int64_t tile_k = 1;
  int64_t split_tiles = 0;  // 0: no limit
  int64_t rescales = 0;     // 0: one for each tile
  int64_t most_rescales = 0;  // T is at most this (error_cap.h); 0: no limit
  int64_t splits = 1;       // S
  int32_t key_order = ATTN_KEYS_ANY;
  int32_t max_rule = ATTN_MAX_UNKNOWN;
  int64_t sum_lanes = 0;          // 0: not known
  double merge_steps = 0;         // how often an error of the LSE multiplies O without cancelling; 0: never
  double merge_rounds = 1;        // how often a weight goes through an LSE
  bool merge_by_maximum = false;  // a weight goes through no LSE
  bool flushes = false;           // fp32 subnormals may become 0
  ATTN_BOTH bool in_order() const {
    return key_order == ATTN_KEYS_ASCENDING || key_order == ATTN_KEYS_DESCENDING;
  }
  bool isolates_masked_nan = false;

  // The LSE as written: lam / log_unit, which may err by B_lam / log_unit; dead_lse for a row that sees no key.
  double log_unit = 1;      // ln 2 to base 2
  double log_overflow = 0;  // limit of |lam| / log_unit, which may exceed |lam|; 0: none
  double dead_lse = -std::numeric_limits<double>::infinity();
  bool any_dead_lse = false;
};

struct ErrorModel : ErrorNumbers {
  std::vector<Assumption> assumptions;
};

ErrorModel make_error_model(const attn_problem& problem, const attn_plan& plan, const Calibration& calibration);

// plan.p_order, or what other fields of the plan imply if it is open (attn_p_order).
int32_t p_order_of(const attn_plan& plan);

// The plan without its order of keys and its maximum, for sums that may have others. P is not predicted from it.
attn_plan in_any_order(attn_plan plan);

// The model of one split's fp32 partial: no merge, O as stored.
ErrorModel partial_error_model(const attn_problem& problem, const attn_plan& plan,
                               const Calibration& calibration);

// The limit from which O may be an infinity. The rule asks whether |o| + B'' reaches the threshold of O's
// format. A bound is B'' after rounding to that format, so the threshold takes the same step.
ATTN_BOTH inline double output_overflow(const ErrorNumbers& model) {
  return model.overflow * (1 + model.o_unit) + model.o_tiny;
}

// A number of rescales under the limit that the caller of a check sets. What else follows from a plan's tiles
// stays: the kernel's sums have these tiles, however often they are rescaled.
ATTN_BOTH inline double limited_rescales(const ErrorNumbers& model, double rescales) {
  return model.most_rescales > 0 ? std::min(rescales, static_cast<double>(model.most_rescales)) : rescales;
}

// T if the plan declares no maximum rule: the most rescales of a row over keys first..last (inclusive)
// within one split. See tile_walk.h for the other case.
ATTN_BOTH inline double rescales_of(const ErrorNumbers& model, int64_t first, int64_t last) {
  int64_t tiles = last / model.tile_k - first / model.tile_k + 1;
  if (model.split_tiles > 0) tiles = std::min(tiles, model.split_tiles);
  // A plan may declare more rescales than one for each tile.
  if (model.rescales > tiles) tiles = model.rescales;
  return limited_rescales(model, static_cast<double>(tiles));
}

}  // namespace attnfuzz
