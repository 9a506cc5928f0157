// The most that a plan may claim: the errors that the caller of a check allows.
//
// A kernel's bound follows from its plan. With an untrusted kernel, the plan may only tighten the bound: a
// class that is looser than the cap counts as the cap.
//
//   Calibration calibration = documented();
//   calibration.error_cap = documented_cap();     // no 8-bit P, no 100,000 merges
//   ErrorModel m = make_error_model(problem, plan, calibration);   // of capped_plan(problem, plan, calibration)
#pragma once

#include "kernels/attention.h"
#include "reference/model/calibration.h"

namespace attnfuzz {

// The loosest classes that attention.h documents; P, V and partials in the input's format, rounded to
// nearest; splits with at least as many keys as a tensor core takes at once.
attn_plan documented_cap();
// The best possible plan: it rounds only to fp32 and at the end, and has no splits. A bound exceeds that of
// this plan only by what a plan declares or leaves open.
attn_plan best_plan();

// `declared` itself if the calibration has no cap.
attn_plan capped_plan(const attn_problem& problem, const attn_plan& declared, const Calibration& calibration);

}  // namespace attnfuzz
