// The kernels of a batch. They lay out a case from its recipe, and judge what a run has written.
//
//   lay_lists(call, work, &env)    // of a call over listed blocks (lists.cu)
//   lay_out(call, work, &env) ... the kernel under test ... launch_rows(work.input, ...)   // or launch_merge()
//   judge(call, work, &env)
//   work.number = 1;
//   lay_again(call, work, &env) ... the kernel once more ... judge(call, work, &env)
//
// All on env->stream, asynchronous on a GPU.
#pragma once

#include "fuzz/batch/device/call.h"
#include "reference/cuda/merge.h"
#include "reference/cuda/rows.h"

namespace attnfuzz::batch {

// A call whose offsets have been turned into addresses.
struct Work {
  const Call* call;               // on the device
  std::byte* base[kTensors + 1];  // where offsets begin, for each tensor and the workspace
  int32_t number;                 // of the call, from 0
  uint8_t jobs[32];               // of the kernel that is launched: a job for each row of its grid
  // With keys in pages: the block table, in rows of pages_per_seq, and the number of slots of each
  // page that hold a key (LaidPages).
  const int64_t* table;
  const int32_t* held;
  // With listed blocks: the list of each query of each KV head, in rows of attn_problem.select. The oracle sees
  // them as a mask, which has a row for each list.
  int32_t* lists;
  // The oracle's inputs and outputs. Its inputs are copies that the kernel under test cannot reach.
  cuda::RowsInput input;   // for a merge, only the number of rows is set
  cuda::MergeInput merge;  // for other calls it has no rows
  cuda::RowsOutput output;
  float *got, *got_lse;  // O and LSE of the first call, dense; NULL if not wanted
  Counts* counts;
};

// Writes the lists that work.lists points to, before lay_out(). A query after the end of its packed
// entry gets no list.
attn_status lay_lists(const Call& call, const Work& work, const attn_env* env);
// Writes every byte of the slot's tensors and of its workspace (unless the workspace is kept), the oracle's own
// inputs, and counts of 0. `call` is the host's copy of work.call.
attn_status lay_out(const Call& call, const Work& work, const attn_env* env);
// Restores the outputs, and the workspace if it must be clean, to their state before the first
// call.
attn_status lay_again(const Call& call, const Work& work, const attn_env* env);
// Checks that redzones, gaps and inputs are as lay_out() made them, and that outputs are complete
// and within their bounds. If the plan is deterministic, a later call must have the bits of the
// first.
attn_status judge(const Call& call, const Work& work, const attn_env* env);

}  // namespace attnfuzz::batch
