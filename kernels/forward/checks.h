// The host side of a forward kernel: makes the parameters for the device and the plan's fields from a problem
// that kernels/plug_in.h has checked.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/forward/params.h"
#include "kernels/forward/score_terms.h"
#include "kernels/plug_in.h"

namespace attn {

// True if rows of `dim` elements of 16 bits can be copied 16 bytes at a time: they are aligned, and whole chunks of eight
// elements. `shape`: the tensor's first three dimensions.
inline bool copies_by_16_bytes(const Strided& tensor, const int64_t (&shape)[3], int dim) {
  if (reinterpret_cast<uintptr_t>(tensor.data) % 16 != 0 || dim % 8 != 0 || tensor.stride[3] != 1) return false;
  for (int i = 0; i < 3; ++i) {
    if (shape[i] > 1 && tensor.stride[i] % 8 != 0) return false;
  }
  return true;
}

// Refuses a device that lacks the instructions of this family of kernels.
Refusal check_device(const attn_env& env);

// True if batch entries are not packed, keys are not in pages and do not stand for blocks, lengths have 64
// bits, and K and V have 16 bits. The fast paths take no other problems.
inline bool has_dense_entries(const attn_problem& problem) {
  return problem.ragged == 0 && problem.page_size == 0 && problem.index_dtype == ATTN_INDEX_64 &&
         problem.kv_dtype == 0 && problem.key_step == 0;
}

// Refuses 2^31 keys or more in pages.
Refusal check_pages(const attn_problem& problem);

// The device's view of a checked problem. `packed`: query heads per tile.
ForwardParams make_params(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env,
                          int packed);

// Makes the terms from which the fast paths compute exponents if the mode is not kFused. Returns false if there
// is a mask, or a cap whose factors are not normal fp32 numbers. Sequences must be shorter than 2^31.
bool make_score_terms(const attn_problem& problem, const ForwardParams& params, ScoreTerms* terms);

// The copies' part of a plan's path: "cp.async", or "elementwise(qv)", which names the tensors that cannot be
// copied 16 bytes at a time. It is preceded by "ragged " if batch entries are packed, "paged " if keys are in
// pages, "narrow " if K and V have 8 bits, and "steps " if keys stand for blocks.
std::string copy_path(const ForwardParams& params);

// Sets the fields of a plan that all forward kernels of this family share.
void describe_arithmetic(const ForwardParams& params, attn_plan* plan);

}  // namespace attn
