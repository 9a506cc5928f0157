// The loader: one thread that keeps the rings full.
#pragma once

#include "kernels/fa1/hopper/pipeline.h"

namespace attn {

// A tile's panels, once `empty` says that nobody reads the slot any more.
template <class Tile>
__device__ __forceinline__ void load_panels(Tile tile, const TensorMap& map, Mbarrier* full, Mbarrier* empty,
                                            uint32_t phase, int32_t row, int32_t head, int32_t b) {
  mbarrier_wait(empty, phase ^ 1);
  mbarrier_expect(full, Tile::kBytes);
#pragma unroll
  for (int n = 0; n < Tile::D / kBoxColumns; ++n)
    tma_load(tile.panel(n), map, full, {{n * kBoxColumns, row, head, b}});
}

struct Values {
  int32_t row, head, b;
  bool any;
};

// Keys go ahead of values by one tile, across query tiles as well: their slots are
// free earlier, and they are wanted earlier.
template <class T, HopperSpec kSpec>
__device__ __forceinline__ void load(const HopperParams& p, const Pipeline<T, kSpec>& pipe) {
  Ring<kSpec.q_stages> q;
  Ring<kSpec.stages> k, v;
  Values owed = {0, 0, 0, false};
  const auto load_values = [&] {
    if (!owed.any) return;
    load_panels(pipe.v(v.slot), p.v, pipe.v_full + v.slot, pipe.v_empty + v.slot, v.phase, owed.row, owed.head,
                owed.b);
    v = v.next();
  };
  uint32_t item = blockIdx.x;
  tell_item(pipe, 0, item);
  tma_prefetch(p.k);
  tma_prefetch(p.q);
  tma_prefetch(p.v);
  tma_prefetch(p.o);
  grid_dependency_wait();
  // Blocks of what comes next set up in the room of those that have done. Where all have done at once that
  // was measured to gain with four consumers alone.
  if (p.taken != nullptr || kSpec.consumers == 4) grid_dependents_start();
  for (uint32_t turn = 0;; ++turn) {
    const Work work = work_of(p, item);
    if (!work.any) break;
    const HeadOf head = head_of<kSpec>(p, work);
    const int32_t kv_head = static_cast<uint32_t>(head.h) / p.group;
    const Keys tiles = block_tiles<kSpec>(p, extent_of<kSpec>(p, work), work.tile);
    for (int32_t t = tiles.end - 1; t >= tiles.begin; --t) {
      load_panels(pipe.k(k.slot), p.k, pipe.k_full + k.slot, pipe.k_empty + k.slot, k.phase, t * kSpec.tile_k,
                  kv_head, head.b);
      k = k.next();
      load_values();
      owed = {t * kSpec.tile_k, kv_head, head.b, true};
      if (t == tiles.end - 1) {
        load_panels(pipe.q(q.slot), p.q, pipe.q_full + q.slot, pipe.q_empty + q.slot, q.phase,
                    work.tile * kSpec.tile_q(), head.h, head.b);
        q = q.next();
      }
      // As late as consumers let it be: what is taken early waits here while others have nothing to do.
      if (t == (kSpec.cross_tile ? tiles.end - 1 : tiles.begin)) {
        item = next_item(p, item);
        tell_item(pipe, turn + 1, item);
      }
    }
  }
  load_values();
}

}  // namespace attn
