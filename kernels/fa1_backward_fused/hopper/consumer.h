// A consumer: a warpgroup with 64 of the 128 keys of each item. The rows of its products are keys, so P' and
// dA' are operands in registers.
//
//   for each step, a slot of Q and dO:
//     for each group of 64 queries:
//       S' = K Q^T                            issued; in the first group dQ of two steps before is added to
//                                             global memory meanwhile
//       dP' = V dO^T                          issued
//       P' = 2^(sigma S' - LSE log2 e)        while dP' runs
//       dV += P' dO                           issued
//       dA' = P' (dP' - D), to shared memory  while dV runs
//       dK += dA' Q                           issued; in the last group after the next product
//     dQ = dA K of the step before            issued: 64 queries and 64 columns per consumer
//
// The two consumers exchange dA' through two slots and compute dQ one step late, so neither waits for the other
// unless it is most of a step ahead. While one computes exponentials, the other's products run. There are two
// exceptions, in which both clear rows and meet at a barrier: each step whose tile passes the end of a packed
// entry's queries (clear_queries), and once each item that passes the last key (clear_keys).
//
// The item lies in shared memory because the accumulators leave few registers. dQ has the registers of dP', as
// the same variable: with two variables ptxas does not find enough registers.
#pragma once

#include "kernels/fa1_backward_fused/hopper/layout.h"
#include "kernels/forward/clear_rows.h"
#include "kernels/primitives/barrier.h"
#include "kernels/primitives/matrix_store.h"

namespace attn::backward {

template <class T, int D>
class GroupConsumer {
 public:
  using Tiles = GroupTiles<T, D>;

  __device__ __forceinline__ GroupConsumer(const WalkParams& p, const Tiles& tiles, int number)
      : p_(p), tiles_(tiles), number_(number), own_(64 * number + 16 * (warp_id() % 4)) {}

  __device__ __forceinline__ void run() {
    const ForwardParams& f = p_.of.forward;
    uint32_t step = 0;
    for (uint32_t loaded = 0;; ++loaded) {
      const int slot = slot_of(loaded);
      const GroupItem& item = tiles_.items[slot];
      mbarrier_wait(tiles_.item_full + slot, phase_of(loaded));
      if (item.steps < 0) return;
      clear(dk_);
      clear(dv_);
      if (item.steps > 0) step = walk(item, slot, step);
      store(item, dk_, p_.of.dk, p_.whole.dk, f.dim_qk, f.scale);
      store(item, dv_, p_.of.dv, p_.whole.dv, f.dim_v, 1.0f);
      syncwarp();
      mbarrier_arrive(tiles_.item_empty + slot, lane_id() == 0);
    }
  }

 private:
  static constexpr int kKeys = Tiles::kKeys, kQueries = Tiles::kQueries, kGroups = Tiles::kGroups;
  static constexpr int kTogether = 1, kBoth = Tiles::kConsumers * kWarpgroup;  // a barrier of both consumers
  using Keys = typename Tiles::Keys;
  using Group = typename Tiles::Group;
  using Fragments = uint32_t[4][4];

  // Says where a walk is: it holds the positions of this step and of the step before, and the sums to which dQ in
  // registers is added; nullptr if there is no such dQ.
  struct Walk {
    Cursor at, before;
    float* sums;
  };

  // Walks over an item whose first step has this number. Returns the number of the next item's first step.
  __device__ __forceinline__ uint32_t walk(const GroupItem& item, int keys, uint32_t step) {
    const Cursor begin = {item.head * p_.of.forward.group, item.tiles.begin};
    Walk walk = {begin, begin, nullptr};
    Products<1, 8> g;
    float(&dq)[8][4] = g[0];
    clear_keys(item, keys);
    take_step<true>(item, keys, step++, walk, g);
    for (int32_t left = item.steps - 1; left > 0; --left) take_step<false>(item, keys, step++, walk, g);
    if (walk.sums != nullptr) add_dq(walk.sums, dq);
    start_dq(dq, keys, step - 1);
    wgmma_wait<0>();
    free_pairs(dq, step - 1);
    add_dq(sums_of(item, walk.before), dq);
    return step;
  }

  // Takes a step. Adds the dQ that it finds in registers, and unless kFirst leaves dQ of the step before there.
  template <bool kFirst>
  __device__ __forceinline__ void take_step(const GroupItem& item, int keys, uint32_t step, Walk& walk,
                                            Products<1, 8>& g) {
    float(&dq)[8][4] = g[0];
    const int32_t first = walk.at.tile * kQueries;
    const int slot = slot_of(step);
    Fragments p, a;  // P' and dA', operands of products that may still be under way
    mbarrier_wait(tiles_.full + slot, phase_of(step));
    clear_queries(item, first, slot);
#pragma unroll
    for (int n = 0; n < kGroups; ++n) {
      Products<1, 8> s;
      float lse2[8][2];
      start(s[0], tiles_.k(keys), tiles_.q(slot, n));
      read_saved(tiles_.lse2, slot, n, lse2);
      const bool plain = first + 64 * n >= item.plain_first && first + 64 * n <= item.plain_last;
      // Not earlier: accesses to shared memory wait until these additions have left the multiprocessor.
      if (!kFirst && n == 0 && walk.sums != nullptr) add_dq(walk.sums, dq);
      start(g[0], tiles_.v(keys), tiles_.dout(slot, n));
      weigh(item, first + 64 * n, plain, slot, n, lse2, s, g, p, a);
      if (n == 0) mbarrier_wait(tiles_.read + slot, phase_of(step) ^ 1);
      store_pairs(slot, n, a);
      if (n + 1 < kGroups) {
        add(dk_[0], a, tiles_.q(slot, n));
        wait_for_all(p, a);
      }
    }
    mbarrier_arrive(tiles_.written + slot, lane_id() == 0);
    if constexpr (!kFirst) start_dq(dq, keys, step - 1);
    add(dk_[0], a, tiles_.q(slot, kGroups - 1));
    if constexpr (!kFirst) walk.sums = sums_of(item, walk.before);
    walk.before = walk.at;
    walk.at.next(item.tiles);
    wait_for_all(p, a);
    if constexpr (!kFirst) free_pairs(dq, step - 1);
    mbarrier_arrive(tiles_.empty + slot, lane_id() == 0);
  }

  // Turns the products of the consumer's keys and 64 queries into P' and dA'. dV += P' dO may still be running
  // when it returns. `plain`: all pairs see each other.
  __device__ __forceinline__ void weigh(const GroupItem& item, int32_t first, bool plain, int slot, int n,
                                        const float (&lse2)[8][2], Products<1, 8>& s, Products<1, 8>& g,
                                        Fragments& p, Fragments& a) {
    wgmma_wait<1>();
    wgmma_pin(s[0]);
#pragma unroll
    for (int c = 0; c < 8; ++c) {
#pragma unroll
      for (int e = 0; e < 4; ++e) s[0][c][e] = ex2(fma(s[0][c][e], p_.sigma, -lse2[c][e % 2]));
    }
    if (!plain) hide_pairs(item, first, s);
    pack_rows<T>(s[0], p);
    add(dv_[0], p, tiles_.dout(slot, n));

    float delta[8][2];
    if constexpr (D == 64) read_saved(tiles_.delta, slot, n, delta);
    wgmma_wait<1>();
    wgmma_pin(g[0]);
    if constexpr (D == 128) read_saved(tiles_.delta, slot, n, delta);  // no registers are free before the wait
#pragma unroll
    for (int c = 0; c < 8; ++c) {
#pragma unroll
      for (int e = 0; e < 4; ++e) g[0][c][e] = s[0][c][e] * (g[0][c][e] - delta[c][e % 2]);
    }
    if (!plain) hide_pairs(item, first, g);
    pack_rows<T>(g[0], a);
  }

  // Reads LSE or D of the thread's queries in group n.
  static __device__ __forceinline__ void read_saved(const float* saved, int slot, int n, float (&to)[8][2]) {
    const float* const from = saved + slot * kQueries + 64 * n + 2 * (lane_id() % 4);
#pragma unroll
    for (int c = 0; c < 8; ++c) to[c][0] = from[8 * c], to[c][1] = from[8 * c + 1];
  }

  __device__ __forceinline__ void hide_pairs(const GroupItem& item, int32_t first, Products<1, 8>& c) const {
    hide<true>(p_, item.rows, first + 2 * (lane_id() % 4), item.first + own_ + lane_id() / 4, c);
  }

  // Stores the warp's rows of dA'.
  __device__ __forceinline__ void store_pairs(int slot, int n, const Fragments& a) const {
    const auto pairs = tiles_.pairs(slot, n);
#pragma unroll
    for (int k = 0; k < 4; ++k) stsm4(pairs.at(own_ + lane_id() % 16, 16 * k + lane_id() / 16 * 8), a[k]);
    fence_proxy_async();
    syncwarp();
  }

  __device__ __forceinline__ void wait_for_all(Fragments& p, Fragments& a) {
    wgmma_wait<0>();
    wgmma_pin(p);
    wgmma_pin(a);
    wgmma_pin(dv_[0]);
    wgmma_pin(dk_[0]);
  }

  // Issues c = A[own rows] B^T.
  __device__ __forceinline__ void start(float (&c)[8][4], Keys a, Group b) const {
    wgmma_pin(c);
    wgmma_fence();
    wgmma_abt(c, a, 64 * number_, b);
    wgmma_commit();
  }

  // Issues c += P B.
  __device__ __forceinline__ void add(float (&c)[D / 8][4], Fragments& p, Group b) const {
    wgmma_pin(c);
    wgmma_pin(p);
    wgmma_fence();
    wgmma_pv(c, p, b);
    wgmma_commit();
  }

  // Issues dQ = dA K of a step for 64 queries and 64 columns, once both consumers have stored dA'. At 64
  // columns a consumer takes one of two groups of queries, at 128 one of two panels.
  __device__ __forceinline__ void start_dq(float (&dq)[8][4], int keys, uint32_t step) const {
    const int slot = slot_of(step);
    mbarrier_wait(tiles_.written + slot, phase_of(step));
    wgmma_pin(dq);
    wgmma_fence();
    wgmma_atb(dq, tiles_.pairs(slot, kGroups == 1 ? 0 : number_), tiles_.k(keys), kGroups == 1 ? number_ : 0);
    wgmma_commit();
  }

  // The product for dQ of a step is complete: frees its dA'.
  __device__ __forceinline__ void free_pairs(float (&dq)[8][4], uint32_t step) const {
    wgmma_pin(dq);
    mbarrier_arrive(tiles_.read + slot_of(step), thread_id() % kWarpgroup == 0);
  }

  // Adds dQ to its sums.
  static __device__ __forceinline__ void add_dq(float* sums, const float (&dq)[8][4]) {
#pragma unroll
    for (int c = 0; c < 8; ++c) add_fragment(sums + c * 128, dq[c]);
  }

  // Returns the sums to which the warp adds its dQ of the step at `at`.
  __device__ __forceinline__ float* sums_of(const GroupItem& item, const Cursor& at) const {
    const int64_t head = item.b * p_.of.forward.heads_q + at.head;
    const int row = 16 * (warp_id() % 4) + (kGroups == 1 ? 0 : 64 * number_);
    return p_.sums + (head * p_.rows + at.tile * kQueries + row) * D + (kGroups == 1 ? 64 * 16 * number_ : 0);
  }

  // Clears rows of K past the last key: 0 times their NaN would be NaN in dQ.
  __device__ __forceinline__ void clear_keys(const GroupItem& item, int slot) const {
    const ForwardParams& f = p_.of.forward;
    const int32_t left = item.rows.keys - item.first;
    if (left >= kKeys || (f.key_lengths == nullptr && f.ragged.cu_k == nullptr)) return;
    clear_rows(tiles_.k(slot), left, thread_id() - kWarpgroup, kBoth);
    bar_sync(kTogether, kBoth);
  }

  // Clears rows of Q and dO of the next packed entry.
  __device__ __forceinline__ void clear_queries(const GroupItem& item, int32_t first, int slot) const {
    if (p_.of.forward.ragged.cu_q == nullptr || first + kQueries <= item.rows.queries) return;
#pragma unroll 1
    for (int n = 0; n < kGroups; ++n) {
      const int32_t left = item.rows.queries - first - 64 * n, from = left > 0 ? left : 0;
      clear_rows(tiles_.q(slot, n), from, thread_id() - kWarpgroup, kBoth);
      clear_rows(tiles_.dout(slot, n), from, thread_id() - kWarpgroup, kBoth);
    }
    bar_sync(kTogether, kBoth);
  }

  __device__ __forceinline__ void store(const GroupItem& item, const Products<1, D / 8>& c, const Strided& to,
                                        bool whole, int dim, float scale) const {
    const EntryRows& rows = item.rows;
    store_fragment_rows(c[0], to.at<T>(item.b, item.head, rows.first_key), to, whole, item.first + own_,
                        rows.keys, rows.stored_keys, dim, scale);
  }

  const WalkParams& p_;
  const Tiles& tiles_;
  const int number_, own_;  // the number of the consumer; the warp's first key in the item
  Products<1, D / 8> dk_, dv_;
};

}  // namespace attn::backward
