// The rows of packed tensors that belong to a batch entry.
#pragma once

#include "fuzz/host/wire.h"
#include "properties/memory/arena.h"
#include "reference/call/sequences.h"

namespace attnfuzz::worker {

// True if the entries of the tensor lie packed (ATTN_FEATURE_RAGGED).
inline bool is_packed(const attn_problem& p, TensorId tensor) {
  const TensorSpec& spec = spec_of(tensor);
  return may_be_packed(spec) && (p.ragged & (of_queries(spec) ? ATTN_RAGGED_QUERIES : ATTN_RAGGED_KEYS)) != 0;
}

// The total number of rows of a packed tensor's entries. Rows behind them belong to no entry.
inline int64_t owned_rows(const wire::Request& request, const Arena& arena, TensorId tensor) {
  const TensorId borders = of_queries(spec_of(tensor)) ? TensorId::kCuQ : TensorId::kCuK;
  const attn_problem& p = request.problem;
  return index_at(p.index_dtype, arena.at(request.tensors[static_cast<size_t>(borders)].offset), p.batch);
}

}  // namespace attnfuzz::worker
