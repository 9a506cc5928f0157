// The decode path of Split-K on sm_90a, as its plan and run see it.
#pragma once

#include "kernels/forward/params.h"
#include "kernels/splitk/hopper/shapes.h"
#include "kernels/forward/split_params.h"

namespace attn {

// Which instantiation does a checked problem: an index for decode_spec(), decode_splits(),
// decode_partial() and decode_reduce(), or -1 where the path cannot take it. It takes scores
// without a mask tensor (causal, windows, key lengths, a bias and a softcap yes) where all queries of all
// heads of a KV head fit a tile of 64 rows, tensors that 16-byte copies and the copy
// engine can read, at least one query and one key, and the kernel's own choice of variant.
int decode_choice(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env);

const DecodeSpec& decode_spec(int choice);

// How many splits, if the caller leaves it to us.
int64_t decode_splits(int choice, const attn_problem& problem, const attn_env& env);

// All splits of a problem, to O and LSE if `direct` (there is one), else to the workspace.
attn_status decode_partial(int choice, const attn_problem& problem, const ForwardParams& params,
                           const SplitParams& split, bool direct, const attn_env* env);

// The splits of the workspace to O and LSE. `close`: right behind decode_partial().
attn_status decode_reduce(int choice, const attn_problem& problem, const ForwardParams& params,
                          const SplitParams& split, bool close, const attn_env* env);

}  // namespace attn
