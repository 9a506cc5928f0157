// The kernels of a screen: a case laid out from its recipe, and what a run has left judged.
//
//   lay_out(work, &env) ... the kernel under test ... launch_rows(work.input, ...) ... judge(work, &env)
//
// All on env->stream, asynchronous on a GPU.
#pragma once

#include "fuzz/screen/call.h"
#include "reference/cuda/rows.h"

namespace attnfuzz::screen {

// A call with its places as addresses.
struct Work {
  attn_problem problem;
  Place tensor[kTensors];
  Workspace workspace;
  Fill fill[3];
  double overflow;
  int32_t complete;
  std::byte* slot;
  // The oracle's side. What is laid out for it is not what the kernel under test is given.
  cuda::RowsInput input;
  cuda::RowsOutput output;
  Counts* counts;
};

// Every byte of the slot's tensors and workspace, the oracle's own inputs, counts of 0.
attn_status lay_out(const Work& work, const attn_env* env);
// Guards, gaps and inputs are what lay_out() made them; outputs are complete and within their bounds.
attn_status judge(const Work& work, const attn_env* env);

}  // namespace attnfuzz::screen
