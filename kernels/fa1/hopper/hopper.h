// The sm_90a path of FA-1, as its plan and run see it.
#pragma once

#include "kernels/fa1/hopper/shapes.h"
#include "kernels/forward/params.h"

namespace attn {

// Which instantiation does a checked problem: an index for hopper_spec() and
// hopper_run(), or -1 where the path cannot take it. It takes scores without a mask
// tensor (causal, windows, key lengths, a bias and a softcap yes) of tensors that the copy engine can
// read, at least one query and one key, and the kernel's own choice of variant.
int hopper_choice(const attn_problem& problem, const attn_env& env, const ForwardParams& params);

const HopperSpec& hopper_spec(int choice);

// Bytes of workspace: of a counter, where blocks take items as they get done.
uint64_t hopper_workspace(int choice, const attn_problem& problem, const attn_env& env);

attn_status hopper_run(int choice, const attn_problem& problem, const attn_tensors& tensors,
                       const ForwardParams& params, const attn_env* env);

}  // namespace attn
