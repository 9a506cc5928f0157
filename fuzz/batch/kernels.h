// The kernels of a batch: a case laid out from its recipe, and what a run has left judged.
//
//   lay_out(call, work, &env) ... the kernel under test ... launch_rows(work.input, ...)   // or launch_merge()
//   judge(call, work, &env)
//   work.number = 1;
//   lay_again(call, work, &env) ... the kernel once more ... judge(call, work, &env)
//
// All on env->stream, asynchronous on a GPU.
#pragma once

#include "fuzz/batch/call.h"
#include "reference/cuda/merge.h"
#include "reference/cuda/rows.h"

namespace attnfuzz::batch {

// A call with its places as addresses.
struct Work {
  const Call* call;               // on the device
  std::byte* base[kTensors + 1];  // where places count from, of each tensor and of the workspace
  int32_t number;                 // of the call, from 0
  // With keys in pages: the block table, rows of pages_per_seq one behind the other, and how many slots of each
  // page hold a key (LaidPages).
  const int64_t* table;
  const int32_t* held;
  // The oracle's side. What is laid out for it is not what the kernel under test is given.
  cuda::RowsInput input;   // of a merge: its number of rows alone
  cuda::MergeInput merge;  // of a merge; else without rows
  cuda::RowsOutput output;
  float *got, *got_lse;  // O and the LSE that the first call wrote, dense; NULL: nobody asks
  Counts* counts;
};

// Writes every byte of the slot's tensors and of its workspace (unless the workspace is kept), the oracle's own inputs,
// and counts of 0. `call` is the host's copy of work.call.
attn_status lay_out(const Call& call, const Work& work, const attn_env* env);
// Outputs, and the workspace where it is to be clean, as they were before the first call.
attn_status lay_again(const Call& call, const Work& work, const attn_env* env);
// Redzones, gaps and inputs are what lay_out() made them; outputs are complete and within their bounds; a later
// call's are the first one's, to the bit, where the plan says so.
attn_status judge(const Call& call, const Work& work, const attn_env* env);

}  // namespace attnfuzz::batch
