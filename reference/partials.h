// Judges the two stages of Split-K separately, so that an error shows its stage.
//
// partial: split s owns the KV tiles [s * split_tiles, (s+1) * split_tiles) of tile_k keys each. Its
// partial is the attention over those keys alone, normalised by its own sum, in fp32, with its LSE. A split
// without a visible key for a row holds 0 and -inf, and so does a split past the last tile.
//
// reduce: from exact fp32 partials, O = sum_s e^(LSE_s - LSE) O_s and LSE = ln sum_s e^(LSE_s). This is a
// weighted mean again (weighted_mean.h), with scores x_s = LSE_s, values O_s, and only the merge's own rounding:
//
//   R_s = M - x_s                            how far below the largest LSE, M
//   e_s = 5u R_s + S(eps_e + 2u)             product by log2 e, subtraction; S factors if merged one by one
//       + 2u(|x_s| + |M|)                    if each LSE is rounded when multiplied, before M is subtracted;
//                                            S times if merged one by one
//       + 2 eps_e                            the largest LSE's own weight
//   g_l = g_v = gamma(S+3, u), u_P = 0, eta_P = 2^-125 (a weight and a product may flush; S times that where
//   weights are relative to the final LSE)
//
// and the factor e^C of a merge that weighs by the rounded final LSE.
//
//   PartialReference p = evaluate_partials(problem, tensors, plan, calibration, s);
//   p.reference[TensorId::kO].ratio(row, c, partial_o);
//   Reference r = bound_reduce(problem, plan, calibration, splits, o.data(), lse.data());
#pragma once

#include <cstdint>

#include "reference/oracle.h"

namespace attnfuzz {

struct PartialReference {
  int64_t split = 0;
  int64_t first_key = 0;  // the split's keys: first_key <= j < last_key
  int64_t last_key = 0;
  Reference reference;  // its dead rows are those that see no key of the split
};

PartialReference evaluate_partials(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                                   const Calibration& calibration, int64_t split, RowSample sample = {});

// The partials are dense: o is (split, row, dim_v), lse is (split, row), with rows in the order of
// Reference. A partial with LSE -inf has no part in the result, whatever its O holds. A row whose LSEs are
// all -inf is dead. A NaN LSE makes the row NaN; a NaN in O makes its column NaN.
Reference bound_reduce(const attn_problem& problem, const attn_plan& plan, const Calibration& calibration,
                       int64_t num_splits, const float* o, const float* lse);

}  // namespace attnfuzz
