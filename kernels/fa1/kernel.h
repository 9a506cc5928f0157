// The kernel of FA-1's general path: one block for each query tile, which passes once over its keys.
#pragma once

#include "kernels/forward/store.h"

namespace attn {

// The number of a block runs over query tiles fastest, then heads, then batch entries. The last query tile
// starts first, because under a causal mask it has the most work.
template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads)
    fa1_kernel(const __grid_constant__ ForwardParams p, int64_t q_tiles) {
  const int64_t tile = q_tiles - 1 - blockIdx.x % q_tiles;
  const int64_t head = blockIdx.x / q_tiles % p.heads_q;
  const int64_t b = blockIdx.x / q_tiles / p.heads_q;
  const Entry entry = entry_of(p, b);
  const BlockRows block = {b, head, tile * Shape::kTileQ, entry.queries, entry};
  if (block.empty()) return;  // a longer batch entry has this tile, but this entry does not

  RowState<Shape::kDim> state;
  attend<Shape>(p, block, live_tiles<Shape>(block_range<Shape>(p, block)), state);
  store_final<typename Shape::T>(p, block, whole_rows(), state);
}

}  // namespace attn
