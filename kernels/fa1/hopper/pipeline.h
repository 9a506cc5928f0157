// A block's shared memory, and the rings that its loader and its consumers go round.
#pragma once

#include "kernels/fa1/hopper/params.h"
#include "kernels/forward/ring.h"
#include "kernels/primitives/barrier.h"
#include "kernels/primitives/shared.h"
#include "kernels/primitives/warpgroup.h"
#include "kernels/primitives/wgmma.h"

namespace attn {

// full: the loader's copies have come, or its word. empty: every consumer has done with the slot.
template <class T, HopperSpec kSpec>
struct Pipeline {
  using Q = PanelTile<T, kSpec.tile_q(), kSpec.dim>;
  using KV = PanelTile<T, kSpec.tile_k, kSpec.dim>;
  using Staged = PanelTile<T, 64, kSpec.dim>;  // a warpgroup's O

  T *q_tiles, *k_tiles, *v_tiles;
  Mbarrier *q_full, *q_empty, *k_full, *k_empty, *v_full, *v_empty, *item_full, *item_empty;
  uint32_t* items;

  __device__ __forceinline__ Q q(int slot) const { return {q_tiles + slot * (kSpec.tile_q() * kSpec.dim)}; }
  __device__ __forceinline__ KV k(int slot) const { return {k_tiles + slot * (kSpec.tile_k * kSpec.dim)}; }
  __device__ __forceinline__ KV v(int slot) const { return {v_tiles + slot * (kSpec.tile_k * kSpec.dim)}; }
  // Where a tile of keys was, once it is not read any more.
  __device__ __forceinline__ Staged staged(KV slot) const { return {slot.panel(0)}; }
};

// All threads of the block.
template <class T, HopperSpec kSpec>
__device__ __forceinline__ Pipeline<T, kSpec> set_up() {
  SharedArena arena;
  Pipeline<T, kSpec> pipe;
  pipe.q_tiles = arena.template carve<T>(kSpec.q_stages * kSpec.tile_q() * kSpec.dim, 1024);
  pipe.k_tiles = arena.template carve<T>(kSpec.stages * kSpec.tile_k * kSpec.dim, 1024);
  pipe.v_tiles = arena.template carve<T>(kSpec.stages * kSpec.tile_k * kSpec.dim, 1024);
  Mbarrier* bars = arena.template carve<Mbarrier>(kSpec.barriers());
  pipe.q_full = bars;
  pipe.q_empty = bars + kSpec.q_stages;
  pipe.k_full = bars + 2 * kSpec.q_stages;
  pipe.k_empty = pipe.k_full + kSpec.stages;
  pipe.v_full = pipe.k_empty + kSpec.stages;
  pipe.v_empty = pipe.v_full + kSpec.stages;
  pipe.item_full = pipe.v_empty + kSpec.stages;
  pipe.item_empty = pipe.item_full + kItemSlots;
  pipe.items = arena.template carve<uint32_t>(kItemSlots);
  if (thread_id() == 0) {
    for (int n = 0; n < kSpec.q_stages; ++n) {
      mbarrier_init(pipe.q_full + n, 1);
      mbarrier_init(pipe.q_empty + n, kSpec.consumers);
    }
    for (int n = 0; n < kSpec.stages; ++n) {
      mbarrier_init(pipe.k_full + n, 1);
      mbarrier_init(pipe.k_empty + n, kSpec.consumers);
      mbarrier_init(pipe.v_full + n, 1);
      mbarrier_init(pipe.v_empty + n, kSpec.consumers);
    }
    for (int n = 0; n < kItemSlots; ++n) {
      mbarrier_init(pipe.item_full + n, 1);
      mbarrier_init(pipe.item_empty + n, 4 * kSpec.consumers);
    }
    mbarrier_init_fence();
  }
  cta_sync();
  return pipe;
}

// The loader says what the block does in its n-th turn; consumers wait for it. Who reads a slot arrives
// for it himself, one thread of each warp: racecheck (compute-sanitizer of CUDA 13.0) takes an mbarrier
// to order those who arrive at it, and not those whom another barrier has ordered before them.
template <class T, HopperSpec kSpec>
__device__ __forceinline__ void tell_item(const Pipeline<T, kSpec>& pipe, uint32_t turn, uint32_t item) {
  const uint32_t slot = turn % kItemSlots, phase = turn / kItemSlots % 2;
  mbarrier_wait(pipe.item_empty + slot, phase ^ 1);
  pipe.items[slot] = item;
  mbarrier_arrive(pipe.item_full + slot, true);
}

template <class T, HopperSpec kSpec>
__device__ __forceinline__ Work work_in(const HopperParams& p, const Pipeline<T, kSpec>& pipe, uint32_t turn) {
  const uint32_t slot = turn % kItemSlots, phase = turn / kItemSlots % 2;
  const bool reads = lane_id() == 0;
  mbarrier_wait(pipe.item_full + slot, phase);
  const uint32_t item = shfl(reads ? pipe.items[slot] : 0, 0);
  mbarrier_arrive(pipe.item_empty + slot, reads);
  return work_of(p, item);
}

// Named barriers: one a warpgroup for itself, and one for its turn; and one of all that compute.
__device__ __forceinline__ int own_barrier(int consumer) { return 1 + consumer; }
__device__ __forceinline__ int turn_barrier(int consumer) { return 5 + consumer; }
inline constexpr int kComputingBarrier = 9;

}  // namespace attn
