// The walk on wgmma: its parameters, its items, and a block's shared memory.
//
// An item is 128 keys of a KV head. A block takes one item after another: the first by its number, the others
// from a counter in the workspace.
//
//   K, V        two slots of 128 keys, with the item             item_full, item_empty
//   Q, dO       two slots of kGroups groups of 64 queries,       full, empty
//               with their LSE and D
//   dA'         two slots of kGroups groups, keys by queries     written, read
//
// The producer waits for a slot's `empty` and completes `full`. Both consumers arrive at `empty` when they have
// read the slot. They arrive at `written` when they have stored their rows of dA', and at `read` when their
// products for dQ have read all rows. Steps are numbered across items; the parity of the number is the slot.
#pragma once

#include "kernels/fa1_backward/walk_pairs.h"
#include "kernels/primitives/shared.h"
#include "kernels/primitives/tma.h"
#include "kernels/primitives/warpgroup.h"
#include "kernels/primitives/wgmma.h"

namespace attn::backward {

struct GroupParams {
  WalkParams walk;
  TensorMap q, dout, k, v;  // boxes of 64 rows of Q and dO, of 128 rows of K and V
  uint32_t items;
  int32_t section;  // KV heads whose items are taken in turn: all first items, all second items, and so on
};

struct GroupItem {
  int32_t b, head, first;  // batch entry, KV head, first key
  EntryRows rows;
  Span tiles;                       // the tiles of queries to walk over, for each head of the group in turn
  int32_t steps;                    // tiles of all heads; -1: there are no more items
  int32_t plain_first, plain_last;  // 64 queries whose first is in [plain_first, plain_last] see all keys
};

template <class T, int D>
struct GroupTiles {
  static constexpr int kKeys = 128, kConsumers = kKeys / 64, kThreads = (1 + kConsumers) * kWarpgroup;
  static constexpr int kGroups = 128 / D;  // of queries; a consumer computes 64 columns of one group's dQ
  static constexpr int kQueries = 64 * kGroups;
  static constexpr int kGive = 24, kTake = 240;  // registers of the producer and of a consumer
  using Keys = PanelTile<T, kKeys, D>;
  using Group = PanelTile<T, 64, D>;
  using Pairs = PanelTile<T, kKeys, 64>;  // keys by queries
  static constexpr int kKeyElements = kKeys * D, kGroupElements = 64 * D, kPairElements = kKeys * 64;
  static constexpr int kBarriers = 12;

  T *k_, *v_, *q_, *dout_, *a_;
  float *lse2, *delta;
  GroupItem* items;
  Mbarrier *item_full, *item_empty, *full, *empty, *written, *read;  // two each

  __device__ __forceinline__ explicit GroupTiles(SharedArena& arena)
      : k_(arena.carve<T>(2 * kKeyElements, 1024)),
        v_(arena.carve<T>(2 * kKeyElements, 1024)),
        q_(arena.carve<T>(2 * kGroups * kGroupElements, 1024)),
        dout_(arena.carve<T>(2 * kGroups * kGroupElements, 1024)),
        a_(arena.carve<T>(2 * kGroups * kPairElements, 1024)),
        lse2(arena.carve<float>(2 * kQueries)),
        delta(arena.carve<float>(2 * kQueries)),
        items(arena.carve<GroupItem>(2)),
        item_full(arena.carve<Mbarrier>(kBarriers)),
        item_empty(item_full + 2),
        full(item_full + 4),
        empty(item_full + 6),
        written(item_full + 8),
        read(item_full + 10) {}

  static constexpr size_t bytes() {
    return (4 * kKeyElements + 4 * kGroups * kGroupElements + 2 * kGroups * kPairElements) * sizeof(T) +
           4 * kQueries * sizeof(float) + 2 * shared_bytes<GroupItem>(1) + kBarriers * sizeof(Mbarrier);
  }

  __device__ __forceinline__ Keys k(int slot) const { return {k_ + slot * kKeyElements}; }
  __device__ __forceinline__ Keys v(int slot) const { return {v_ + slot * kKeyElements}; }
  __device__ __forceinline__ Group q(int slot, int n) const {
    return {q_ + (slot * kGroups + n) * kGroupElements};
  }
  __device__ __forceinline__ Group dout(int slot, int n) const {
    return {dout_ + (slot * kGroups + n) * kGroupElements};
  }
  __device__ __forceinline__ Pairs pairs(int slot, int n) const {
    return {a_ + (slot * kGroups + n) * kPairElements};
  }

  // Thread 0 of the block makes the barriers. All lanes of the producer arrive at `full`. Of the consumers, one
  // thread of each warp arrives, because each warp reads or writes the slot itself. At `read` one thread of
  // each consumer arrives: only products read dA', and a batch of products belongs to the warpgroup, so it is
  // complete for all four warps when one of them has waited for it.
  __device__ __forceinline__ void make_barriers() const {
    if (thread_id() == 0) {
      for (int n = 0; n < 2; ++n) {
        mbarrier_init(item_full + n, 1);
        mbarrier_init(item_empty + n, 4 * kConsumers);
        mbarrier_init(full + n, 32);
        mbarrier_init(empty + n, 4 * kConsumers);
        mbarrier_init(written + n, 4 * kConsumers);
        mbarrier_init(read + n, kConsumers);
      }
      mbarrier_init_fence();
    }
    cta_sync();
  }
};

// The slot and the parity of step, or item, number n.
__device__ __forceinline__ int slot_of(uint32_t n) { return static_cast<int>(n & 1); }
__device__ __forceinline__ uint32_t phase_of(uint32_t n) { return n >> 1 & 1; }

}  // namespace attn::backward
