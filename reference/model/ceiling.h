// What a plan may claim at most: the errors that whoever asks for the check allows.
//
// A kernel's plan says how it computes, and its bound comes from that. Of a stranger's kernel it can
// only tighten the bound: whatever is looser than the ceiling counts as the ceiling.
//
//   Calibration calibration = documented();
//   calibration.ceiling = documented_ceiling();     // no 8-bit P, no 100,000 merges
//   ErrorModel m = make_error_model(problem, plan, calibration);   // of capped_plan(problem, plan, calibration)
#pragma once

#include "kernels/attention.h"
#include "reference/model/calibration.h"

namespace attnfuzz {

// The loosest that attention.h documents for each class, P, V and partials in the input's format and
// converted to nearest, splits of no fewer keys than a tensor core takes at once.
attn_plan documented_ceiling();
// The best there is: nothing is rounded but to fp32 and at the end, no splits. What a bound comes to
// beyond that is what the plan declares, or leaves open.
attn_plan best_plan();

// `declared` itself where the calibration has no ceiling.
attn_plan capped_plan(const attn_problem& problem, const attn_plan& declared, const Calibration& calibration);

}  // namespace attnfuzz
