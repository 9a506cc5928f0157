// The mma path of FA-1, as plan() and run() see it.
#pragma once

#include "kernels/fa1/ampere/shapes.h"
#include "kernels/forward/params.h"

namespace attn {

// The instantiation for a checked problem: an index for ampere_spec() and ampere_run(), or -1 if the path
// cannot take the problem. The path takes problems without a mask tensor (causal masks, windows, key lengths, a
// bias and a softcap are fine), tensors whose rows are whole 16-byte chunks, up to 128 columns, and any variant
// but the first. README.md has the other limits.
int ampere_choice(const attn_problem& problem, const attn_env& env, const ForwardParams& params);

const AmpereSpec& ampere_spec(int choice);

attn_status ampere_run(int choice, const attn_problem& problem, const ForwardParams& params,
                       const attn_env* env);

}  // namespace attn
