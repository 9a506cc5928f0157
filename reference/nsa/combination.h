// The oracle of the operation nsa_combine (ATTN_FEATURE_NSA_COMBINE): three results of attention, added up by gates.
//
//   O = sum_s g_s O_s,   B = gamma(3, u) sum_s |g_s O_s| + 6 eta,   then B + u_O (|O| + B) + eta_O
//
// Each term takes at most three roundings: its product, and two additions. A product or a sum that underflows may lose
// eta, and so may a factor that is flushed. Products and sums are rounded in fp32, or by plan.merge_format in the input's
// format. If all products are 0, O is 0 exactly.
//
//   Reference due = evaluate_combination(problem, tensors, plan, h200());
#pragma once

#include "reference/oracle.h"

namespace attnfuzz {

inline constexpr KnownFeatures kCombinationKnows = {
    "the oracle of combinations by gates", ATTN_FEATURE_NSA_COMBINE | ATTN_FEATURE_F32 | ATTN_FEATURE_WIDE};

// Reads o1, o2, o3 and gates of `host`, in host memory. Throws UnknownFeatures for a kind of problem that it does not
// know. It reads these fields of the plan: merge_format, conversion, flush_to_zero, isolates_masked_nan and tile_q.
//
// Values that are not numbers:
//   - If a gate is 0 and its side is infinite or NaN, the column may be anything. With isolates_masked_nan, the side
//     is ignored.
//   - If subnormals may be flushed, a gate below 2^-126 counts as 0 here, and the column may be anything even with
//     isolates_masked_nan.
//   - If another gate or its side is NaN, the column must be NaN. If one of them is infinite, the column may be anything.
//   - If sum_s |g_s O_s| may overflow on the way, the column may be anything.
Reference evaluate_combination(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                               const Calibration& calibration, RowSample sample = {}, bool exact = true);

}  // namespace attnfuzz
