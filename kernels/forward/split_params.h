// The partial results of a kernel that splits the keys.
#pragma once

#include "kernels/forward/params.h"

namespace attn {

// The results of the splits, dense in the order (split, batch, head, query). O has dim_v columns.
struct SplitParams {
  float* o;
  float* lse;
  int64_t splits;
  int64_t split_tiles;  // KV tiles of one split
  int64_t rows;         // batch * heads_q * seq_q
};

__device__ inline int64_t partial_row(const ForwardParams& p, const SplitParams& split, int64_t s, int64_t b,
                                      int64_t h, int64_t i) {
  return s * split.rows + (b * p.heads_q + h) * p.seq_q + i;
}

}  // namespace attn
