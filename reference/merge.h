// The oracle of the operation merge (ATTN_FEATURE_MERGE): the merged result of two sides, with a
// bound for each element. rows/merged_rows.h has the derivation.
//
//   Reference due = evaluate_merge(problem, tensors, plan, h200());
#pragma once

#include "reference/oracle.h"

namespace attnfuzz {

inline constexpr KnownFeatures kMergeKnows = {"the oracle of merges",
                                              ATTN_FEATURE_F32 | ATTN_FEATURE_MERGE | ATTN_FEATURE_IN_PLACE};

// The errors that a merge by this plan may make.
ErrorModel merge_error_model(const attn_problem& problem, const attn_plan& plan, const Calibration& calibration);

// Reads o1, o2, lse1 and lse2 of `host`, in host memory, and nothing else. Of a merge in place, o1 and lse1 are
// copies of what they held before the call. Throws UnknownFeatures for a kind of problem that it does not know.
//
// It reads these fields of the plan: the classes of exp, log and reciprocal, merge_rule, merge_format,
// lse_base, lse_dead and isolates_masked_nan. If O of a side that saw no key is not finite, the column may be
// anything, unless isolates_masked_nan is set.
Reference evaluate_merge(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                         const Calibration& calibration, RowSample sample = {});

}  // namespace attnfuzz
