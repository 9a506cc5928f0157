// Host side of a forward kernel: how a problem that makes sense (kernels/plug_in.h)
// looks to the device, and how it is computed.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/forward/params.h"
#include "kernels/forward/score_terms.h"
#include "kernels/plug_in.h"

namespace attn {

// Whether the device has what this family of kernels is written in.
Refusal check_device(const attn_env& env);

// The device's view of a checked problem. `packed`: query heads to a tile.
ForwardParams make_params(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env,
                          int packed);

// What the fast paths make exponents by where scores are not kFused; false where they cannot: a mask, or a
// cap whose factors 32 bits do not hold. Sequences have 31 bits.
bool make_score_terms(const attn_problem& problem, const ForwardParams& params, ScoreTerms* terms);

// "cp.async", or "elementwise(qv)" naming the tensors that cannot be copied 16 bytes at a time.
std::string copy_path(const ForwardParams& params);

// The fields of a plan that all forward kernels of this family share.
void describe_arithmetic(const ForwardParams& params, attn_plan* plan);

}  // namespace attn
