// The producer: a warp that takes items, loads their K and V, and keeps the slots of Q and dO full. K and V of
// an item, and its first queries, are loaded while the item before is still computed.
//
// Tensor copies load tiles. Rows after the last row of a tensor become zeros; rows that belong to the next
// packed entry, or lie past a key length, are cleared by the consumers. LSE and D pass through the lanes'
// registers.
#pragma once

#include "kernels/fa1_backward_fused/hopper/layout.h"
#include "kernels/primitives/atomic.h"
#include "kernels/primitives/dependent.h"
#include "kernels/primitives/fragment_sums.h"

namespace attn::backward {

template <class T, int D>
class GroupProducer {
 public:
  using Tiles = GroupTiles<T, D>;

  __device__ __forceinline__ GroupProducer(const GroupParams& p, const Tiles& tiles)
      : p_(p), tiles_(tiles), elected_(elect_one()) {}

  __device__ __forceinline__ void run() {
    grid_dependency_wait();
    uint32_t number = blockIdx.x, loaded = 0, step = 0;
    while (number < p_.items) {
      const uint32_t next = next_item();
      const GroupItem item = item_of(static_cast<int32_t>(number));
      number = next;
      if (item.first >= item.rows.stored_keys) continue;
      load_item(item, loaded++);
      Cursor at = {item.head * p_.walk.of.forward.group, item.tiles.begin};
      for (int32_t left = item.steps; left > 0; --left) {
        load_queries(item, at, step++);
        at.next(item.tiles);
      }
    }
    grid_dependents_start();
    GroupItem last = {};
    last.steps = -1;
    load_item(last, loaded);
  }

 private:
  // The number of the next item.
  __device__ __forceinline__ uint32_t next_item() const {
    uint32_t number = 0;
    if (lane_id() == 0) number = gridDim.x + atomic_add(p_.walk.taken, 1u);
    return shfl(number, 0);
  }

  __device__ __forceinline__ GroupItem item_of(int32_t number) const {
    const WalkParams& p = p_.walk;
    const ForwardParams& f = p.of.forward;
    const int32_t tiles = static_cast<int32_t>((f.seq_k + Tiles::kKeys - 1) / Tiles::kKeys);
    const int32_t heads = static_cast<int32_t>(p.of.heads_kv), all = static_cast<int32_t>(f.batch) * heads;
    const int32_t first = number / (p_.section * tiles) * p_.section;  // of the section
    const int32_t many = all - first < p_.section ? all - first : p_.section, place = number - first * tiles;
    const int32_t head = first + place % many;
    GroupItem of;
    of.b = head / heads, of.head = head % heads, of.first = place / many * Tiles::kKeys;
    of.rows = entry_rows(p, of.b);
    of.tiles = query_tiles(p, of.rows, of.first, Tiles::kKeys, Tiles::kQueries);
    of.steps = of.tiles.empty() ? 0 : (of.tiles.end - of.tiles.begin) * f.group;
    // all_meet() of 64 queries, as a range of their first query.
    const int32_t nearest = of.first - of.rows.shift, last = of.rows.queries - 64;
    const int32_t farthest = nearest + p.left - 63;
    of.plain_first = nearest + Tiles::kKeys - 1 - p.right;
    of.plain_last = of.first + Tiles::kKeys > of.rows.keys ? -1 : last < farthest ? last : farthest;
    return of;
  }

  // Passes an item to the consumers, and loads its K and V if its walk has steps. `loaded`: the items passed
  // before.
  __device__ __forceinline__ void load_item(const GroupItem& item, uint32_t loaded) const {
    const int slot = slot_of(loaded);
    Mbarrier* const full = tiles_.item_full + slot;
    mbarrier_wait(tiles_.item_empty + slot, phase_of(loaded) ^ 1);
    if (!elected_) return;
    tiles_.items[slot] = item;
    if (item.steps <= 0) {
      mbarrier_arrive(full, true);
      return;
    }
    using Keys = typename Tiles::Keys;
    const int32_t row = static_cast<int32_t>(item.rows.first_key) + item.first;
    const int32_t b = p_.walk.of.forward.ragged.cu_k == nullptr ? item.b : 0;
    mbarrier_expect(full, 2 * Keys::kBytes);
#pragma unroll
    for (int n = 0; n < D / kBoxColumns; ++n)
      tma_load(tiles_.k(slot).panel(n), p_.k, full, {{n * kBoxColumns, row, item.head, b}});
#pragma unroll
    for (int n = 0; n < D / kBoxColumns; ++n)
      tma_load(tiles_.v(slot).panel(n), p_.v, full, {{n * kBoxColumns, row, item.head, b}});
  }

  // Loads a tile of queries as soon as its slot is empty.
  __device__ __forceinline__ void load_queries(const GroupItem& item, const Cursor& at, uint32_t step) const {
    constexpr int kChunks = Tiles::kQueries / 4;
    const WalkParams& p = p_.walk;
    const int32_t first = at.tile * Tiles::kQueries;
    const int slot = slot_of(step);
    const int64_t saved = (item.b * p.of.forward.heads_q + at.head) * p.rows + first;
    Floats chunks[Tiles::kGroups];
#pragma unroll
    for (int n = 0; n < Tiles::kGroups; ++n) {
      const int chunk = 32 * n + lane_id();
      const float* const from =
          chunk < kChunks ? p.lse2 + saved + 4 * chunk : p.delta + saved + 4 * (chunk - kChunks);
      chunks[n] = *reinterpret_cast<const Floats*>(from);
    }
    Mbarrier* const full = tiles_.full + slot;
    mbarrier_wait(tiles_.empty + slot, phase_of(step) ^ 1);
#pragma unroll
    for (int n = 0; n < Tiles::kGroups; ++n) {
      const int chunk = 32 * n + lane_id();
      float* const to = chunk < kChunks ? tiles_.lse2 + 4 * chunk : tiles_.delta + 4 * (chunk - kChunks);
      *reinterpret_cast<Floats*>(to + slot * Tiles::kQueries) = chunks[n];
    }
    mbarrier_expect_if(elected_, full, 2 * Tiles::kGroups * Tiles::Group::kBytes);
    if (elected_) {
      const int32_t row = static_cast<int32_t>(item.rows.first_query) + first;
      const int32_t b = p.of.forward.ragged.cu_q == nullptr ? item.b : 0;
#pragma unroll
      for (int n = 0; n < Tiles::kGroups; ++n) load(tiles_.q(slot, n), p_.q, full, row + 64 * n, at.head, b);
#pragma unroll
      for (int n = 0; n < Tiles::kGroups; ++n)
        load(tiles_.dout(slot, n), p_.dout, full, row + 64 * n, at.head, b);
    }
    mbarrier_arrive(full, !elected_);
  }

  static __device__ __forceinline__ void load(typename Tiles::Group tile, const TensorMap& map, Mbarrier* full,
                                              int32_t row, int32_t head, int32_t b) {
#pragma unroll
    for (int n = 0; n < D / kBoxColumns; ++n)
      tma_load(tile.panel(n), map, full, {{n * kBoxColumns, row, head, b}});
  }

  const GroupParams& p_;
  const Tiles& tiles_;
  bool elected_;
};

}  // namespace attn::backward
