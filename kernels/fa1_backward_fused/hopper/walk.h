// dK, dV and dQ on wgmma (sm_90a): a block has 128 keys, a warpgroup 64 of them. The products of a warpgroup
// run while its threads compute.
//
// A step takes kGroups groups of 64 queries of one head:
//
//   wait for Q, dO | barrier
//   for each group of queries:
//     S' = K Q^T, dP' = V dO^T              issued together; in the first group the loads of the next Q, dO start here
//     P' = 2^(sigma S' - LSE log2 e)        while dP' runs
//     dV += P' dO                           issued
//     dA' = P' (dP' - D), to shared memory  while dV runs
//     dK += dA' Q                           issued and waited for, except in the last group
//   barrier | dQ = dA K                     issued: 64 queries and 64 columns per warpgroup
//   dK += dA' Q                             issued for the last group; runs while dQ is added to global memory
//
// Rows are copied by cp.async as in the walks for sm_80. cp.async fills rows after the last one with zeros, so
// packed entries and key lengths need no code of their own.
#pragma once

#include "kernels/fa1_backward/walk_pairs.h"
#include "kernels/primitives/barrier.h"
#include "kernels/primitives/shared.h"
#include "kernels/primitives/warpgroup.h"
#include "kernels/primitives/wgmma.h"

namespace attn::backward {

template <class T, int D>
struct GroupTiles {
  static constexpr int kKeys = 128, kWarpgroups = kKeys / 64, kThreads = kWarpgroups * kWarpgroup;
  static constexpr int kGroups = kWarpgroups * 64 / D;  // of queries; a warpgroup has 64 columns of one group's dQ
  static constexpr int kQueries = 64 * kGroups;
  using Keys = PanelTile<T, kKeys, D>;
  using Group = PanelTile<T, 64, D>;
  using Pairs = SharedTile<T, 64>;  // keys by queries
  static constexpr int kGroupElements = 64 * D, kPairElements = kKeys * 64;

  T *k, *v, *q, *dout, *a;  // q, dout: two steps
  float *lse2, *delta;      // of two steps

  __device__ __forceinline__ explicit GroupTiles(SharedArena& arena)
      : k(arena.carve<T>(kKeys * D, 1024)),
        v(arena.carve<T>(kKeys * D, 1024)),
        q(arena.carve<T>(2 * kGroups * kGroupElements, 1024)),
        dout(arena.carve<T>(2 * kGroups * kGroupElements, 1024)),
        a(arena.carve<T>(kGroups * kPairElements, 1024)),
        lse2(arena.carve<float>(2 * kQueries)),
        delta(arena.carve<float>(2 * kQueries)) {}

  static constexpr size_t bytes() {
    return (2 * kKeys * D + 4 * kGroups * kGroupElements + kGroups * kPairElements) * sizeof(T) +
           4 * kQueries * sizeof(float);
  }

  __device__ __forceinline__ Group group(T* of, int step, int n) const {
    return {of + ((step & 1) * kGroups + n) * kGroupElements};
  }
  __device__ __forceinline__ Pairs pairs(int n) const { return {a + n * kPairElements}; }
};

// Does the same as copy_rows() of walk_pairs.h, but for a tile of panels of 64 columns.
template <int kBlock, class T, int kRows, int D>
__device__ __forceinline__ void copy_panels(PanelTile<T, kRows, D> tile, const T* head, const int64_t& stride,
                                            int32_t first, int32_t last, int dim) {
  constexpr int kChunks = D / 8, kStep = kBlock / kChunks;
  static_assert(kStep % 8 == 0 && kRows % kStep == 0);
  const int row = thread_id() / kChunks, column = thread_id() % kChunks * 8;
  const T* from = head + static_cast<int64_t>(first + row) * stride + column;
  T* const to = tile.at(row, column);
  const int32_t left = column < dim ? last - first - row : 0;
#pragma unroll
  for (int r = 0; r < kRows; r += kStep) {
    cp_async16(to + r * 64, from, r < left);
    from += kStep * stride;
  }
}

template <class T, int D>
class GroupWalk {
 public:
  using Tiles = GroupTiles<T, D>;

  __device__ __forceinline__ explicit GroupWalk(const WalkParams& p, SharedArena& arena) : p_(p), tiles_(arena) {
    const ForwardParams& f = p.of.forward;
    const int32_t tiles = static_cast<int32_t>((f.seq_k + kKeys - 1) / kKeys), block = static_cast<int32_t>(blockIdx.x);
    const int32_t head = block / tiles, heads = static_cast<int32_t>(p.of.heads_kv);
    b_ = head / heads, head_ = head % heads, first_ = block % tiles * kKeys;
    rows_ = entry_rows(p, b_);
    number_ = warpgroup_id();
    own_ = 64 * number_ + 16 * (warp_id() % 4);
  }

  __device__ __forceinline__ void run() {
    if (first_ >= rows_.stored_keys) return;  // the whole block returns
    const ForwardParams& f = p_.of.forward;
    const Span tiles = query_tiles(p_, rows_, first_, kKeys, kQueries);
    const int32_t steps = tiles.empty() ? 0 : (tiles.end - tiles.begin) * f.group;
    clear(dk_);
    clear(dv_);
    if (steps > 0) {
      Cursor now = {head_ * f.group, tiles.begin};
      copy_keys(f.k, tiles_.k, f.dim_qk);
      copy_keys(f.v, tiles_.v, f.dim_v);
      copy_queries(now, 0);
      cp_commit();
      for (int32_t step = 0; step < steps; ++step) {
        cp_wait<0>();
        fence_proxy_async();
        cta_sync();
        const Cursor at = now;
        now.next(tiles);
        take(at, step, now, step + 1 < steps);
      }
      cta_sync();
    }
    store(dk_, tiles_.k, p_.of.dk, p_.whole.dk, f.dim_qk, f.scale);
    store(dv_, tiles_.v, p_.of.dv, p_.whole.dv, f.dim_v, 1.0f);
  }

 private:
  static constexpr int kKeys = Tiles::kKeys, kQueries = Tiles::kQueries, kBlock = Tiles::kThreads;
  using Keys = typename Tiles::Keys;

  __device__ __forceinline__ void copy_keys(const Strided& from, T* to, int dim) const {
    copy_panels<kBlock>(Keys{to}, from.at<const T>(b_, head_, rows_.first_key), from.stride[2], first_, rows_.keys,
                        dim);
  }

  __device__ __forceinline__ void copy_queries(const Cursor& at, int step) const {
    const ForwardParams& f = p_.of.forward;
    const Strided& dout = p_.of.dout;
    const int32_t first = at.tile * kQueries;
#pragma unroll
    for (int n = 0; n < Tiles::kGroups; ++n) {
      copy_panels<kBlock>(tiles_.group(tiles_.q, step, n), f.q.at<const T>(b_, at.head, rows_.first_query),
                          f.q.stride[2], first + 64 * n, rows_.queries, f.dim_qk);
      copy_panels<kBlock>(tiles_.group(tiles_.dout, step, n), dout.at<const T>(b_, at.head, rows_.first_query),
                          dout.stride[2], first + 64 * n, rows_.queries, f.dim_v);
    }
    const int slot = (step & 1) * kQueries;
    copy_saved<kQueries>(tiles_.lse2 + slot, tiles_.delta + slot, p_, (b_ * f.heads_q + at.head) * p_.rows + first);
  }

  // Takes one step. If `more`, `next` is the tile of queries of the next step.
  __device__ __forceinline__ void take(const Cursor& at, int step, const Cursor& next, bool more) {
    const int32_t first = at.tile * kQueries;
    uint32_t p[4][4], a[4][4];  // P' and dA', operands of products that may still be under way
#pragma unroll
    for (int n = 0; n < Tiles::kGroups; ++n) {
      Products<1, 8> s, g;
      start(s[0], tiles_.k, tiles_.group(tiles_.q, step, n));
      start(g[0], tiles_.v, tiles_.group(tiles_.dout, step, n));
      if (n == 0 && more) {
        copy_queries(next, step + 1);
        cp_commit();
      }
      weigh_group(first + 64 * n, step, n, s, g, p, a);
      if (n + 1 < Tiles::kGroups) {
        add(dk_[0], a, tiles_.group(tiles_.q, step, n));
        wait_for<0>(p, a);
      }
    }
    cta_sync();
    add_dq(at, step, p, a);
  }

  // Turns the products of the warpgroup's keys and 64 queries into P' and dA', and stores dA'. dV += P' dO may
  // still be running when it returns.
  __device__ __forceinline__ void weigh_group(int32_t first, int step, int n, Products<1, 8>& s, Products<1, 8>& g,
                                              uint32_t (&p)[4][4], uint32_t (&a)[4][4]) {
    const bool plain = all_meet(p_, rows_, first, 64, first_, kKeys);
    const int32_t query = first + 2 * (lane_id() % 4), key = first_ + own_ + lane_id() / 4;
    const int slot = (step & 1) * kQueries + 64 * n + 2 * (lane_id() % 4);

    wgmma_wait<1>();
    wgmma_pin(s[0]);
#pragma unroll
    for (int c = 0; c < 8; ++c) {
#pragma unroll
      for (int e = 0; e < 4; ++e) s[0][c][e] = ex2(fma(s[0][c][e], p_.sigma, -tiles_.lse2[slot + 8 * c + e % 2]));
    }
    if (!plain) hide<true>(p_, rows_, query, key, s);
    pack_rows<T>(s[0], p);
    add(dv_[0], p, tiles_.group(tiles_.dout, step, n));

    wgmma_wait<1>();
    wgmma_pin(g[0]);
#pragma unroll
    for (int c = 0; c < 8; ++c) {
#pragma unroll
      for (int e = 0; e < 4; ++e) g[0][c][e] = s[0][c][e] * (g[0][c][e] - tiles_.delta[slot + 8 * c + e % 2]);
    }
    if (!plain) hide<true>(p_, rows_, query, key, g);
    pack_rows<T>(g[0], a);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const uint32_t one[1][4] = {{a[k][0], a[k][1], a[k][2], a[k][3]}};
      store_fragments(tiles_.pairs(n), own_, 16 * k, one);
    }
  }

  // Waits until at most N batches of products still run; dV is complete in either case.
  template <int N>
  __device__ __forceinline__ void wait_for(uint32_t (&p)[4][4], uint32_t (&a)[4][4]) {
    wgmma_wait<N>();
    wgmma_pin(p);
    wgmma_pin(dv_[0]);
    if constexpr (N == 0) {
      wgmma_pin(a);
      wgmma_pin(dk_[0]);
    }
  }

  // Issues c = A[own rows] B^T.
  __device__ __forceinline__ void start(float (&c)[8][4], T* keys, typename Tiles::Group b) const {
    wgmma_pin(c);
    wgmma_fence();
    wgmma_abt(c, Keys{keys}, 64 * number_, b);
    wgmma_commit();
  }

  // Issues c += P B.
  __device__ __forceinline__ void add(float (&c)[D / 8][4], uint32_t (&p)[4][4], typename Tiles::Group b) const {
    wgmma_pin(c);
    wgmma_pin(p);
    wgmma_fence();
    wgmma_pv(c, p, b);
    wgmma_commit();
  }

  // dQ += dA K for 64 queries and 64 columns. At 64 columns a warpgroup takes one of two groups of queries, at
  // 128 one of two panels. The last group's part of dK runs while dQ is added to global memory.
  __device__ __forceinline__ void add_dq(const Cursor& at, int step, uint32_t (&p)[4][4], uint32_t (&slopes)[4][4]) {
    constexpr bool kPanels = Tiles::kGroups == 1;
    const int n = kPanels ? 0 : number_, panel = kPanels ? number_ : 0, row = 16 * (warp_id() % 4);
    uint32_t a[kKeys / 16][4];
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      uint32_t one[1][4];
      ldsm_step_trans(tiles_.pairs(n), 16 * k, row, one);
#pragma unroll
      for (int e = 0; e < 4; ++e) a[k][e] = one[0][e];
    }
    float dq[8][4];
    wgmma_pin(dq);
    wgmma_pin(a);
    wgmma_fence();
    const Keys keys{tiles_.k};
    const WgmmaOperand b = WgmmaOperand::of(keys.panel(panel), Keys::kPanelBytes, 1024);
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) wgmma_rs<T>(dq, a[k], b.plus(k * 2048), k > 0);
    wgmma_commit();
    add(dk_[0], slopes, tiles_.group(tiles_.q, step, Tiles::kGroups - 1));
    wait_for<1>(p, slopes);
    wgmma_pin(dq);
    wgmma_pin(a);
    const int64_t head = b_ * p_.of.forward.heads_q + at.head;
    float* const sums = p_.sums + (head * p_.rows + at.tile * kQueries + 64 * n + row) * D + panel * (64 * 16);
#pragma unroll
    for (int c = 0; c < 8; ++c) add_fragment(sums + c * 128, dq[c]);
    wait_for<0>(p, slopes);
  }

  __device__ __forceinline__ void store(const Products<1, D / 8>& c, T* tile, const Strided& to, bool whole, int dim,
                                        float scale) const {
    store_gradient(c, SharedTile<T, D>{tile}, own_, 0, to, whole, to.at<T>(b_, head_, rows_.first_key), first_,
                   rows_.keys, rows_.stored_keys, dim, scale);
  }

  const WalkParams& p_;
  Tiles tiles_;
  int32_t b_, head_, first_;  // batch entry, KV head, first key
  EntryRows rows_;
  int number_, own_;  // the number of the warpgroup; the warp's first key in the tile
  Products<1, D / 8> dk_, dv_;
};

template <class T, int D>
__global__ void __launch_bounds__(GroupTiles<T, D>::kThreads, 1) walk_groups(const __grid_constant__ WalkParams p) {
  if constexpr (kHasWarpgroups) {
    SharedArena arena;
    GroupWalk<T, D>(p, arena).run();
  } else {
    no_warpgroups();
  }
}

}  // namespace attn::backward
