// The producer: one thread that keeps the slots of K and V full, across items. It makes the barriers itself, so
// that its first loads wait for no other thread.
#pragma once

#include "kernels/forward/ring.h"
#include "kernels/primitives/dependent.h"
#include "kernels/splitk/hopper/layout.h"

namespace attn {

// Loads the panels of a tile as soon as its slot is empty. Rows past the tensor become zeros. `phase`: the
// parity of the slot's round.
template <class Tile>
__device__ __forceinline__ void load_tile_of_keys(Tile tile, const TensorMap& map, Mbarrier* full,
                                                  Mbarrier* empty, uint32_t phase, const Part& part,
                                                  int32_t first_key) {
  mbarrier_wait(empty, phase ^ 1);
  mbarrier_expect(full, Tile::kBytes);
#pragma unroll
  for (int n = 0; n < Tile::D / kBoxColumns; ++n)
    tma_load_once(tile.panel(n), map, full, {{n * kBoxColumns, first_key, part.kv_head, part.b}});
}

template <class T, DecodeSpec kSpec>
__device__ __forceinline__ void load_keys(const DecodeParams& p, const DecodePipeline<T, kSpec>& pipe) {
  grid_dependency_wait();
  Ring<kSpec.stages> at;
  for (uint32_t item = blockIdx.x; item < p.items; item += gridDim.x) {
    const Part part = part_of<kSpec.tile_k>(p, item);
    for (int32_t t = part.tiles.begin; t < part.tiles.end; ++t) {
      load_tile_of_keys(pipe.k(at.slot), p.k, pipe.k_full + at.slot, pipe.k_empty + at.slot, at.phase, part,
                        t * kSpec.tile_k);
      load_tile_of_keys(pipe.v(at.slot), p.v, pipe.v_full + at.slot, pipe.v_empty + at.slot, at.phase, part,
                        t * kSpec.tile_k);
      at = at.next();
    }
  }
}

}  // namespace attn
