// The data that the host and the GPU oracle of merges exchange (ATTN_FEATURE_MERGE).
//
//   launch_merge(input, output, &env);     // merge.cu; asynchronous on a GPU
//
// All pointers are to device memory, and all inputs are dense: a row of each side's O and one LSE of each side for
// each row to evaluate.
#pragma once

#include "reference/cuda/rows.h"

namespace attnfuzz::cuda {

struct MergeInput {
  ErrorNumbers model;  // merge_error_model()
  int32_t dtype;       // attn_dtype of O
  int32_t rows, columns;
  const void* o[2];
  const float* lse[2];
};

// Runs on env->stream, or synchronously: attn::launch(). `output` has no o_exact.
attn_status launch_merge(const MergeInput& input, const RowsOutput& output, const attn_env* env);

}  // namespace attnfuzz::cuda
