// The keys that a query may see: by the rules of reference/semantics.h, by the mask tensor and the bias tensor,
// and by its list of blocks (ATTN_FEATURE_SELECTED, ATTN_FEATURE_SELECTED_BACKWARD).
//
// Only the oracle uses these masks, so that a misunderstanding shared with a framework cannot hide a bug.
// sees() answers for one key; row_keys() finds all keys of a row without examining every one. A test
// compares them.
//
// A NaN bias does not hide its key: unlike -inf, it must make the result NaN.
//
//   std::vector<int64_t> keys;
//   row_keys(problem, tensors, b, h, i, 0, problem.seq_k, &keys);  // ascending
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "reference/semantics.h"

namespace attnfuzz {

// The number of keys of a batch entry: its key length, but at most the keys that it has room for. Without
// key_lengths it is the keys that the entry has room for.
int64_t key_length(const attn_problem& problem, const attn_tensors& tensors, int64_t b);
// len_q[b], the keys of the entry, and len_k[b].
Lengths lengths_of(const attn_problem& problem, const attn_tensors& tensors, int64_t b);

// Removes the rows of queries that a packed entry lacks from `rows` (of RowSpace(problem), ascending), and returns
// the removed rows.
std::vector<int64_t> take_absent(const attn_problem& problem, const attn_tensors& tensors, std::vector<int64_t>* rows);

// True if query i of head h in batch b may see key j, for any j.
bool sees(const attn_problem& problem, const attn_tensors& tensors, int64_t b, int64_t h, int64_t i, int64_t j);

// True if a mask, a bias or a list of blocks may hide keys that position allows.
bool has_holes(const attn_problem& problem);

// The keys that position allows: length, causality, window.
KeyRange key_range(const attn_problem& problem, const attn_tensors& tensors, int64_t b, int64_t i);

// Replaces *keys by the visible keys j with begin <= j < end, ascending.
void row_keys(const attn_problem& problem, const attn_tensors& tensors, int64_t b, int64_t h, int64_t i,
              int64_t begin, int64_t end, std::vector<int64_t>* keys);

// Offset of element (i0,i1,i2,i3) of a tensor from its data, in elements.
inline int64_t offset_of(const attn_tensor& tensor, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
  return i0 * tensor.stride[0] + i1 * tensor.stride[1] + i2 * tensor.stride[2] + i3 * tensor.stride[3];
}

}  // namespace attnfuzz
