// A block's shared memory: tiles of Q, K and V in slots, the barriers of the slots, and item numbers.
//
//   Q   q_stages slots of tile_q x dim     full, empty
//   K   stages slots of tile_k x dim       full, empty
//   V   stages slots of tile_k x dim       full, empty
//   item numbers, kItemSlots               full, empty
//
// The producer waits for a slot's `empty`, and its copies complete `full`. A consumer waits for `full`, and
// arrives at `empty` when it has read the slot.
#pragma once

#include "kernels/fa1/hopper/params.h"
#include "kernels/forward/ring.h"
#include "kernels/primitives/barrier.h"
#include "kernels/primitives/shared.h"
#include "kernels/primitives/warpgroup.h"
#include "kernels/primitives/wgmma.h"

namespace attn {

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
  // O in a slot of K or V that no consumer reads any more.
  __device__ __forceinline__ Staged staged(KV slot) const { return {slot.panel(0)}; }
};

// Thread 0 makes the barriers. A full barrier expects one arrival. An empty barrier expects one arrival of each
// reader: readers of tiles are consumers, readers of item numbers are warps.
template <HopperSpec kSpec, class Pipe>
__device__ __forceinline__ void make_barriers(const Pipe& pipe) {
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

// Lays out shared memory and makes the barriers. All threads of the block call this.
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
  pipe.items = arena.template carve<uint32_t>(kSpec.item_words() * kItemSlots);
  if (thread_id() == 0) make_barriers<kSpec>(pipe);
  cta_sync();
  return pipe;
}

// The head in the slot of an item after the last one.
inline constexpr uint32_t kNoHead = ~0u;

// The producer passes an item to the consumers. It is the block's item number `turn`, counted from 0. With lengths it
// passes the tile and the head, so that consumers need not search for them.
template <class T, HopperSpec kSpec>
__device__ __forceinline__ void tell_item(const HopperParams& p, const Pipeline<T, kSpec>& pipe, uint32_t turn,
                                          uint32_t item) {
  const uint32_t slot = turn % kItemSlots, phase = turn / kItemSlots % 2;
  mbarrier_wait(pipe.item_empty + slot, phase ^ 1);
  if constexpr (kSpec.lengths) {
    const Work work = work_of<kSpec>(p, item);
    pipe.items[2 * slot] = static_cast<uint32_t>(work.tile);
    pipe.items[2 * slot + 1] = work.any ? static_cast<uint32_t>(work.head) : kNoHead;
  } else {
    pipe.items[slot] = item;
  }
  mbarrier_arrive(pipe.item_full + slot, true);
}

// A consumer waits for the block's item number `turn`. In each warp, the thread that reads the slot also
// arrives at `empty`. If another thread arrived for it, racecheck (compute-sanitizer of CUDA 13.0) would report
// a race: it takes an mbarrier to order only the threads that arrive at it.
template <class T, HopperSpec kSpec>
__device__ __forceinline__ Work work_in(const HopperParams& p, const Pipeline<T, kSpec>& pipe, uint32_t turn) {
  const uint32_t slot = turn % kItemSlots, phase = turn / kItemSlots % 2;
  const bool reads = lane_id() == 0;
  mbarrier_wait(pipe.item_full + slot, phase);
  if constexpr (kSpec.lengths) {
    const uint32_t tile = shfl(reads ? pipe.items[2 * slot] : 0, 0);
    const uint32_t head = shfl(reads ? pipe.items[2 * slot + 1] : 0, 0);
    mbarrier_arrive(pipe.item_empty + slot, reads);
    return {static_cast<int32_t>(tile), static_cast<int32_t>(head), head != kNoHead};
  }
  const uint32_t item = shfl(reads ? pipe.items[slot] : 0, 0);
  mbarrier_arrive(pipe.item_empty + slot, reads);
  return work_of<kSpec>(p, item);
}

// Named barriers: two for each consumer, one for its own threads and one for its turn; and one for all
// consumers.
__device__ __forceinline__ int own_barrier(int consumer) { return 1 + consumer; }
__device__ __forceinline__ int turn_barrier(int consumer) { return 5 + consumer; }
inline constexpr int kComputingBarrier = 9;

}  // namespace attn
