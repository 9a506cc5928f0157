// The oracle: what a forward call must give, and how far off it may be.
//
// Fixed tolerances miss bugs and cry wolf. Here every element of an output gets
// a bound of its own, derived from the inputs, the formats, and how the kernel
// says it computes (its plan): see weighted_mean.h for the derivation. Nothing
// is a matter of taste, so a ratio above 1 is a bug of the kernel, of its plan,
// or of the bound itself. The more a plan declares (attn_key_order and what follows
// it) the sharper the bound: of a kernel that declares its order and its row maximum
// the rounding of P is predicted (rounded_p.h), and `value` holds what it comes to.
//
// Contract. `host` tensors lie in host memory; q, k, v and, where the problem
// has them, bias, mask and key_lengths are read, and nothing else is. Memory is
// O(rows dim_v) for the result, O(seq_k (dim_qk + dim_v)) for one kv head; of up to 1024 keys a thread keeps
// the latter, at most 7 MB, for its next call.
//
//   const Reference reference = evaluate(problem, tensors, plan, h200());
//   for output, row, column: if (output.ratio(row, column, got) > 1) fail(...);
//
// What is not a number:
//   - NaN in a visible query, key or bias: the row's O and LSE must be NaN.
//   - NaN in a visible value: that column must be NaN; an infinity there: anything.
//   - NaN or infinity in a value below len_k[b] that the row does not see: that
//     column may be anything, unless the plan declares isolates_masked_nan
//     (0 * NaN reaches a tensor-core product). Beyond len_k[b] it must not matter.
//   - An infinite query, visible key or visible bias: the row is unconstrained.
//   - A key that is hidden does not matter, whatever its score.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "reference/call/known_features.h"
#include "reference/call/reference.h"
#include "reference/call/row_sample.h"
#include "reference/model/calibration.h"
#include "reference/model/error_model.h"

namespace attnfuzz {

inline constexpr KnownFeatures kOracleKnows = {"the oracle", ATTN_FEATURE_F32};

// `exact`: whether Expected::exact is asked for, a product of P and V of its own. Throws UnknownFeatures
// (call/known_features.h) for a kind of problem that it was not written for; so do those below.
Reference evaluate(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                   const Calibration& calibration, RowSample sample = {}, bool exact = true);

// The same over the keys first <= j < last alone, and a model already made:
// what evaluate() and the oracle's partials are written with.
Reference evaluate_keys(const attn_problem& problem, const attn_tensors& host, const ErrorModel& model,
                        const std::vector<int64_t>& rows, int64_t first, int64_t last, bool exact = true);

}  // namespace attnfuzz
