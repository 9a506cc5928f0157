// The host side of a forward kernel: the parameters for the device and the plan's fields, from a problem that
// makes sense (kernels/plug_in.h).
#pragma once

#include <cstdint>
#include <string>

#include "kernels/forward/params.h"
#include "kernels/forward/score_terms.h"
#include "kernels/plug_in.h"

namespace attn {

// Refuses a device that lacks the instructions of this family of kernels.
Refusal check_device(const attn_env& env);

// True if batch entries are neither packed nor in pages, lengths have 64 bits, K and V have 16, and no keys stand for
// blocks. The fast paths take no others.
inline bool has_dense_entries(const attn_problem& problem) {
  return problem.ragged == 0 && problem.page_size == 0 && problem.index_dtype == ATTN_INDEX_64 &&
         problem.kv_dtype == 0 && problem.key_step == 0;
}

// Refuses pages of keys that 31 bits do not count.
Refusal check_pages(const attn_problem& problem);

// The device's view of a checked problem. `packed`: query heads to a tile.
ForwardParams make_params(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env,
                          int packed);

// The terms by which the fast paths make exponents of scores that are not kFused. False if they cannot: with a
// mask, or with a cap whose factors are no normal 32-bit numbers. Sequences have 31 bits.
bool make_score_terms(const attn_problem& problem, const ForwardParams& params, ScoreTerms* terms);

// "cp.async", or "elementwise(qv)" naming the tensors that cannot be copied 16 bytes at a time; after "ragged " where
// batch entries are packed, "paged " where keys lie in pages, "narrow " where K and V have 8 bits, and "steps " where
// keys stand for blocks.
std::string copy_path(const ForwardParams& params);

// The fields of a plan that all forward kernels of this family share.
void describe_arithmetic(const ForwardParams& params, attn_plan* plan);

}  // namespace attn
