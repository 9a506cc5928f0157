// The oracle of operations that write caches (ATTN_FEATURE_APPEND, ATTN_FEATURE_COPY_PAGES): every element of K and of
// V as it must be afterwards, bit for bit. Elements that the operation does not name keep their bits, NaN included.
//
//   Reference due = evaluate_append(problem, given);   // given.k, given.v: as they are before the call
//   due[TensorId::kCacheK].integer[...]
//
// A copy of bits is cheap, so that a large problem is judged whole: there is no RowSample (call/row_sample.h).
#pragma once

#include "reference/oracle.h"

namespace attnfuzz {

inline constexpr KnownFeatures kAppendKnows = {
    "the oracle of appends", ATTN_FEATURE_APPEND | ATTN_FEATURE_F32 | ATTN_FEATURE_WIDE | ATTN_FEATURE_RAGGED |
                                 ATTN_FEATURE_INDEX32 | ATTN_FEATURE_PAGED};
inline constexpr KnownFeatures kCopiesKnow = {
    "the oracle of copied pages", ATTN_FEATURE_COPY_PAGES | ATTN_FEATURE_F32 | ATTN_FEATURE_WIDE |
                                      ATTN_FEATURE_INDEX32 | ATTN_FEATURE_PAGED};

// Both read tensors in host memory, K and V as they are before the call, and nothing of a plan. Expected::integer holds
// the bits of an element, zero-extended. Rows are (batch, head, new row), or (pair, head). Both
// functions throw UnknownFeatures for a kind of problem that they do not know.
Reference evaluate_append(const attn_problem& problem, const attn_tensors& host);
Reference evaluate_copies(const attn_problem& problem, const attn_tensors& host);

}  // namespace attnfuzz
