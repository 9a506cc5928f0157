// The oracle says what a forward call must give, and how far off each element may be.
//
// Fixed tolerances miss bugs and raise false alarms. Here every element gets its own bound, derived from
// the inputs, the formats, and how the kernel computes according to its plan; weighted_mean.h has the
// derivation. Nothing is a matter of taste: a ratio above 1 is a bug of the kernel, of its plan, or of the
// bound. The more a plan declares (attn_key_order and the fields after it), the sharper the bound. If a
// kernel declares its order and its row maximum, the rounding of P is predicted (rounded_p.h), and `value`
// includes it.
//
// Contract. The tensors in `host` lie in host memory. The inputs of the forward pass that the problem has are
// read: q, k and v, and bias, mask, key_lengths, sink, slopes, cu_q, cu_k, block_table, k_scale and v_scale.
// Memory is O(rows dim_v) for the result and O(seq_k (dim_qk + dim_v)) for one KV head. For up to 1024 keys, a
// thread keeps the memory of the KV head for its next call, at most 7 MB.
//
//   const Reference reference = evaluate(problem, tensors, plan, h200());
//   for output, row, column: if (output.ratio(row, column, got) > 1) fail(...);
//
// Values that are not numbers:
//   - NaN in a visible query, key or bias: the row's O and LSE must be NaN.
//   - NaN in a visible value: that column must be NaN. An infinity there: the column may be anything.
//   - NaN or infinity in a value below len_k[b] that the row does not see: that column may be anything, unless
//     the plan declares isolates_masked_nan (0 * NaN enters a tensor-core product). Beyond len_k[b] it must not
//     matter.
//   - An infinite query, visible key or visible bias: the row is unconstrained.
//   - A hidden key does not matter, whatever its score.
//   - An 8-bit code counts as the number that it encodes: it may be NaN, and in E5M2 an infinity. If the
//     kernel converts keys and values, one that overflows the problem's dtype counts as infinite
//     (rows/kv_scales.h).
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

inline constexpr KnownFeatures kOracleKnows = {"the oracle", kForward | ATTN_FEATURE_KV8 | ATTN_FEATURE_KEY_STEP};

// `exact`: true computes Expected::exact, which takes another product of P and V. Throws UnknownFeatures
// (call/known_features.h) for a kind of problem that it does not know; so does evaluate_keys().
Reference evaluate(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                   const Calibration& calibration, RowSample sample = {}, bool exact = true);

// evaluate() over only the keys first <= j < last, with an existing model. evaluate() and the oracle of
// partials use it.
Reference evaluate_keys(const attn_problem& problem, const attn_tensors& host, const ErrorModel& model,
                        const std::vector<int64_t>& rows, int64_t first, int64_t last, bool exact = true);

// evaluate_keys() over all keys, for the oracle of another operation that attends over the keys that rows/visibility.h
// lets a query see. It does not refuse unknown kinds of problem: its caller must have refused them.
Reference evaluate_visible(const attn_problem& problem, const attn_tensors& host, const ErrorModel& model,
                           const std::vector<int64_t>& rows, bool exact);

}  // namespace attnfuzz
