// Clears rows past a length: of V, and in the fused backward pass of K, Q and dO. They are loaded with the rest of
// their tile and may hold NaN, and NaN times a P or dA of 0 is NaN.
//
//   if (left < Tile::kRows) {
//     clear_rows(tile, left, my_number, threads);
//     bar_sync(...);                                 then products see zeros
//   }
#pragma once

#include "kernels/primitives/copy.h"
#include "kernels/primitives/wgmma.h"

namespace attn {

// Sets the rows of a PanelTile from `first_row` on to 0. Each of `threads` threads calls this with its index
// `thread`.
template <class Tile>
__device__ __forceinline__ void clear_rows(Tile tile, int first_row, int thread, int threads) {
  constexpr int kChunks = Tile::D / 8;
  for (int i = first_row * kChunks + thread; i < Tile::kRows * kChunks; i += threads)
    cp_async16(tile.at(i / kChunks, i % kChunks * 8), nullptr, false);
  cp_commit();
  cp_wait<0>();
  fence_proxy_async();
}

}  // namespace attn
