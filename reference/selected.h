// The oracle of the operation selected (ATTN_FEATURE_SELECTED): attention over the keys of listed blocks.
//
// It is the forward pass of the keys that a query sees (rows/visibility.h), with the bound of the
// forward pass. A kernel may take listed keys in any order, even if its plan declares an order.
// Bounds that depend on the order of keys are therefore not used, and each key may be alone in its block of an mma.
//
//   Reference due = evaluate_selected(problem, tensors, plan, h200());
#pragma once

#include "reference/oracle.h"

namespace attnfuzz {

inline constexpr KnownFeatures kSelectedKnows = {
    "the oracle of listed blocks", ATTN_FEATURE_SELECTED | ATTN_FEATURE_F32 | ATTN_FEATURE_RAGGED |
                                       ATTN_FEATURE_INDEX32 | ATTN_FEATURE_WIDE};

// The error model of a call over listed blocks. `problem` has ATTN_FEATURE_SELECTED.
ErrorModel selected_error_model(const attn_problem& problem, const attn_plan& plan,
                                const Calibration& calibration);

// Reads q, k, v and indices of `host`, in host memory, and key_lengths, cu_q and cu_k if the problem has them.
// Throws UnknownFeatures for a kind of problem that it does not know.
Reference evaluate_selected(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                            const Calibration& calibration, RowSample sample = {}, bool exact = true);

}  // namespace attnfuzz
