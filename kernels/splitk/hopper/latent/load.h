// The loads of a slot's parts. Each warpgroup that computes O loads its own part: after the products that read a tile, one
// of its threads loads the next tile into the slot. No other warpgroup needs the old tile then, because its scores came
// before these products.
#pragma once

#include "kernels/splitk/hopper/latent/layout.h"
#include "kernels/splitk/hopper/producer.h"

namespace attn {

// Loads the panels of `tile`, whose first column in K is `column`, with the keys of tile t. Rows and columns past a dense
// tensor become zeros. `again`: another block reads the keys too, so they should stay in the L2 cache.
template <class Tile>
__device__ __forceinline__ void load_latent(Tile tile, int32_t column, const DecodeParams& p, const Part& part, int32_t t,
                                            Mbarrier* full, bool again) {
  const Boxes<Tile::kRows> boxes = boxes_of<Tile::kRows>(p, part, t);
  mbarrier_expect(full, Tile::kBytes);
#pragma unroll
  for (int i = 0; i < boxes.kMost; ++i) {
    if (i > 0 && (p.box_rows == 0 || i * p.box_rows >= Tile::kRows)) break;
#pragma unroll
    for (int n = 0; n < Tile::D / kBoxColumns; ++n) {
      auto* to = tile.panel(n) + i * p.box_rows * kBoxColumns;
      const Coordinates from = {{column + n * kBoxColumns, boxes.row[i], part.kv_head, boxes.entry[i]}};
      if (again) {
        tma_load(to, p.k, full, from);
      } else {
        tma_load_once(to, p.k, full, from);
      }
    }
  }
}

// Loads part `half` of a slot with the keys of tile t.
template <class T>
__device__ __forceinline__ void load_latent_part(const LatentParams& params, const LatentPipeline<T>& pipe,
                                                 const Part& part, int32_t t, int slot, int half) {
  Mbarrier* full = pipe.full + 2 * slot + half;
  const bool again = params.row_tiles > 1;
  if (half == 0) {
    load_latent(pipe.first(slot), 0, params.decode, part, t, full, again);
  } else {
    load_latent(pipe.rest(slot), LatentSpec::kHalf, params.decode, part, t, full, again);
  }
}

}  // namespace attn
