// The producer: one thread that deals out items and keeps the slots of Q, K and V full.
//
//   for each item:  K(last), V(first of the item before), Q | K(t), V(t + 1) for each earlier tile t
//
// K is loaded one tile ahead of V, across items as well: the slots of K are free earlier, and K is needed
// earlier.
#pragma once

#include "kernels/fa1/hopper/layout.h"

namespace attn {

// Loads the panels of a tile as soon as its slot is empty. `phase`: the parity of the slot's round.
template <class Tile>
__device__ __forceinline__ void load_panels(Tile tile, const TensorMap& map, Mbarrier* full, Mbarrier* empty,
                                            uint32_t phase, int32_t row, int32_t head, int32_t b) {
  mbarrier_wait(empty, phase ^ 1);
  mbarrier_expect(full, Tile::kBytes);
#pragma unroll
  for (int n = 0; n < Tile::D / kBoxColumns; ++n)
    tma_load(tile.panel(n), map, full, {{n * kBoxColumns, row, head, b}});
}

// A tile of V that is still to be loaded after its K.
struct OwedValues {
  int32_t row, head, b;
  bool any;
};

template <class T, HopperSpec kSpec>
__device__ __forceinline__ void load(const HopperParams& p, const Pipeline<T, kSpec>& pipe) {
  Ring<kSpec.q_stages> q;
  Ring<kSpec.stages> k, v;
  OwedValues owed = {0, 0, 0, false};
  const auto load_values = [&] {
    if (!owed.any) return;
    load_panels(pipe.v(v.slot), p.v, pipe.v_full + v.slot, pipe.v_empty + v.slot, v.phase, owed.row, owed.head,
                owed.b);
    v = v.next();
  };
  uint32_t item = blockIdx.x;
  if (!kSpec.lengths) tell_item(p, pipe, 0, item);
  tma_prefetch(p.k);
  tma_prefetch(p.q);
  tma_prefetch(p.v);
  tma_prefetch(p.o);
  grid_dependency_wait();
  // If blocks end at different times, blocks of the next kernel can set up where blocks have ended. If all
  // blocks end at the same time, measurements showed a gain with four consumers only.
  if (p.taken != nullptr || kSpec.consumers == 4) grid_dependents_start();
  if (kSpec.lengths) tell_item(p, pipe, 0, item);  // after the wait: the previous kernel may put entries in order
  for (uint32_t turn = 0;; ++turn) {
    const Work work = work_of<kSpec>(p, item);
    if (!work.any) break;
    const HeadOf head = head_of<kSpec>(p, work);
    const int32_t kv_head = static_cast<uint32_t>(head.h) / p.group;
    const FirstRow queries = first_row<kSpec>(p, p.ragged.cu_q, head.b);
    const FirstRow keys = first_row<kSpec>(p, p.ragged.cu_k, head.b);
    const Keys tiles = block_tiles<kSpec>(p, extent_of<kSpec>(p, work), work);
    for (int32_t t = tiles.end - 1; t >= tiles.begin; --t) {
      const int32_t first_key = keys.row + t * kSpec.tile_k;
      load_panels(pipe.k(k.slot), p.k, pipe.k_full + k.slot, pipe.k_empty + k.slot, k.phase, first_key, kv_head,
                  keys.b);
      k = k.next();
      load_values();
      owed = {first_key, kv_head, keys.b, true};
      if (t == tiles.end - 1) {
        load_panels(pipe.q(q.slot), p.q, pipe.q_full + q.slot, pipe.q_empty + q.slot, q.phase,
                    queries.row + work.tile * kSpec.tile_q(), head.h, queries.b);
        q = q.next();
      }
      // Takes the next item as late as the consumers allow: an item taken early would wait here while other
      // blocks may be idle.
      if (t == (kSpec.cross_tile ? tiles.end - 1 : tiles.begin)) {
        item = next_item(p, item);
        tell_item(p, pipe, turn + 1, item);
      }
    }
  }
  load_values();
}

}  // namespace attn
