// dK and dV of a tile of keys, and in the fused kernel the tile's part of dQ.
//
// Products are transposed: S' = K Q^T and dP' = V dO^T have keys as rows, so that the accumulators of P' and
// dA' already are A fragments. One step takes a tile of 64 queries of one head of the group:
//
//   wait for Q, dO | barrier | start to load the next Q, dO
//   for each of the warp's groups of 32 queries:  S', dP'  |  P', dA'  |  dV += P' dO, dK += dA' Q
//   barrier                                       if two warps share keys, or fused
//   dV += P' dO, dK += dA' Q                      if shared: P' and dA' of the other warp, from shared memory
//   dQ += dA K                                    if fused: a warp has 32 queries and a part of the columns, and
//                                                 adds them to global memory
//
// With one stage, the next Q and dO are loaded after the step instead.
#pragma once

#include "kernels/fa1_backward/walk_pairs.h"
#include "kernels/primitives/barrier.h"
#include "kernels/primitives/shared.h"

namespace attn::backward {

template <class T, KeySpec kSpec, bool kFused>
struct KeyTiles {
  static constexpr int kQueries = KeySpec::kQueries;
  static constexpr bool kExchange = kFused || kSpec.share > 1;
  using Tile = SharedTile<T, kSpec.dim>;
  using Pairs = SharedTile<T, kQueries>;  // keys by queries
  T *k, *v, *q, *dout, *p, *a;            // q, dout: a tile for each stage
  float *lse2, *delta;                    // of the queries of all stages

  __device__ __forceinline__ explicit KeyTiles(SharedArena& arena)
      : k(arena.carve<T>(Tile::elements(kSpec.keys()), 1024)),
        v(arena.carve<T>(Tile::elements(kSpec.keys()), 1024)),
        q(arena.carve<T>(kSpec.stages * Tile::elements(kQueries), 1024)),
        dout(arena.carve<T>(kSpec.stages * Tile::elements(kQueries), 1024)),
        p(kSpec.share > 1 ? arena.carve<T>(Pairs::elements(kSpec.keys()), 1024) : nullptr),
        a(kExchange ? arena.carve<T>(Pairs::elements(kSpec.keys()), 1024) : nullptr),
        lse2(arena.carve<float>(kSpec.stages * kQueries)),
        delta(arena.carve<float>(kSpec.stages * kQueries)) {}

  static constexpr size_t bytes() {
    const size_t tiles = (2 * static_cast<size_t>(kSpec.keys()) + 2 * kSpec.stages * kQueries) * kSpec.dim;
    const size_t pairs = static_cast<size_t>(kSpec.keys()) * kQueries * ((kSpec.share > 1) + kExchange);
    return (tiles + pairs) * sizeof(T) + 2 * kSpec.stages * kQueries * sizeof(float);
  }

  // The slot of step `step`: its first row among the rows of all stages.
  __device__ __forceinline__ static int first(int step) { return step % kSpec.stages * kQueries; }
  __device__ __forceinline__ Tile queries(T* of, int step, int row = 0) const {
    return {of + (first(step) + row) * kSpec.dim};
  }
};

template <class T, KeySpec kSpec, bool kFused>
class KeyWalk {
 public:
  __device__ __forceinline__ explicit KeyWalk(const WalkParams& p, SharedArena& arena) : p_(p), tiles_(arena) {
    const ForwardParams& f = p.of.forward;
    const int32_t tiles = static_cast<int32_t>((f.seq_k + kKeys - 1) / kKeys), block = static_cast<int32_t>(blockIdx.x);
    const int32_t head = block / tiles, heads = static_cast<int32_t>(p.of.heads_kv);
    b_ = head / heads, head_ = head % heads, first_ = block % tiles * kKeys;
    rows_ = entry_rows(p, b_);
    own_ = kGroup * (warp_id() / kSpec.share), part_ = warp_id() % kSpec.share;
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
        if (kSpec.stages == 1 && step > 0) {
          cta_sync();
          copy_queries(now, step);
          cp_commit();
        }
        cp_wait<0>();
        cta_sync();
        if (kSpec.stages > 1 && step + 1 < steps) {
          Cursor ahead = now;
          ahead.next(tiles);
          copy_queries(ahead, step + 1);
          cp_commit();
        }
        take(now, step);
        now.next(tiles);
      }
      cta_sync();
    }
    store(dk_, tiles_.k, p_.of.dk, p_.whole.dk, f.dim_qk, f.scale);
    store(dv_, tiles_.v, p_.of.dv, p_.whole.dv, f.dim_v, 1.0f);
  }

 private:
  static constexpr int D = kSpec.dim, kKeys = kSpec.keys(), kQueries = KeySpec::kQueries, kColumns = kSpec.columns();
  static constexpr int kSteps = kGroup / 16;  // of products over a group of queries
  using Tiles = KeyTiles<T, kSpec, kFused>;
  using Tile = typename Tiles::Tile;
  using Pairs = typename Tiles::Pairs;

  __device__ __forceinline__ void copy_keys(const Strided& from, T* to, int dim) const {
    copy_rows<kKeys, kSpec.threads()>(Tile{to}, from.at<const T>(b_, head_, rows_.first_key), from.stride[2], first_,
                                      rows_.keys, dim);
  }

  __device__ __forceinline__ void copy_queries(const Cursor& at, int step) const {
    const ForwardParams& f = p_.of.forward;
    const Strided& dout = p_.of.dout;
    const int32_t first = at.tile * kQueries;
    copy_rows<kQueries, kSpec.threads()>(tiles_.queries(tiles_.q, step),
                                         f.q.at<const T>(b_, at.head, rows_.first_query), f.q.stride[2], first,
                                         rows_.queries, f.dim_qk);
    copy_rows<kQueries, kSpec.threads()>(tiles_.queries(tiles_.dout, step),
                                         dout.at<const T>(b_, at.head, rows_.first_query), dout.stride[2], first,
                                         rows_.queries, f.dim_v);
    const int slot = Tiles::first(step);
    copy_saved<kQueries>(tiles_.lse2 + slot, tiles_.delta + slot, p_, (b_ * f.heads_q + at.head) * p_.rows + first);
  }

  // Takes one tile of queries.
  __device__ __forceinline__ void take(const Cursor& at, int step) {
    const int32_t first = at.tile * kQueries;
    const bool plain = all_meet(p_, rows_, first, kQueries, first_, kKeys);
#pragma unroll
    for (int n = 0; n < kSpec.groups(); ++n) {
      const int row = kGroup * (kSpec.groups() * part_ + n);  // of the tile of queries
      uint32_t p[kSteps][2][4], a[kSteps][2][4];
      pairs(first, step, row, plain, p, a);
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        if constexpr (kSpec.share > 1) store_fragments(Pairs{tiles_.p}, own_, row + 16 * k, p[k]);
        if constexpr (Tiles::kExchange) store_fragments(Pairs{tiles_.a}, own_, row + 16 * k, a[k]);
      }
#pragma unroll
      for (int k = 0; k < kSteps; ++k) add(step, row + 16 * k, p[k], a[k]);
    }
    if constexpr (Tiles::kExchange) cta_sync();
    if constexpr (kSpec.share > 1) {
#pragma unroll
      for (int k = 0; k < kQueries / 16 - kSteps; ++k) {
        const int row = kGroup * (1 - part_) + 16 * k;
        uint32_t p[2][4], a[2][4];
        ldsm_step(Pairs{tiles_.p}, own_, row, p);
        ldsm_step(Pairs{tiles_.a}, own_, row, a);
        add(step, row, p, a);
      }
    }
    if constexpr (kFused) add_dq(at);
  }

  // Computes P' and dA' of the warp's keys and 32 queries of the tile, from its row `row` on.
  __device__ __forceinline__ void pairs(int32_t first, int step, int row, bool plain, uint32_t (&p)[kSteps][2][4],
                                        uint32_t (&a)[kSteps][2][4]) {
    Products<2, kGroup / 8> s, g;
    clear(s);
    clear(g);
    mma_abt<kGroup>(s, Tile{tiles_.k}, own_, tiles_.queries(tiles_.q, step, row));
    mma_abt<kGroup>(g, Tile{tiles_.v}, own_, tiles_.queries(tiles_.dout, step, row));
    const int column = 2 * (lane_id() % 4), slot = Tiles::first(step) + row + column;
#pragma unroll
    for (int n = 0; n < kGroup / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float lse2 = tiles_.lse2[slot + 8 * n + e], delta = tiles_.delta[slot + 8 * n + e];
#pragma unroll
        for (int m = 0; m < 2; ++m) {
#pragma unroll
          for (int r = 0; r < 4; r += 2) weigh_pair(p_.sigma, lse2, delta, s[m][n][r + e], g[m][n][r + e]);
        }
      }
    }
    if (!plain) hide<true>(p_, rows_, first + row + column, first_ + own_ + lane_id() / 4, s, g);
#pragma unroll
    for (int k = 0; k < kSteps; ++k) to_fragments<T>(s, k, p[k]), to_fragments<T>(g, k, a[k]);
  }

  // dV += P' dO and dK += dA' Q for 16 queries.
  __device__ __forceinline__ void add(int step, int row, const uint32_t (&p)[2][4], const uint32_t (&a)[2][4]) {
    mma_pb(dv_, p, tiles_.queries(tiles_.dout, step), row, kColumns * part_);
    mma_pb(dk_, a, tiles_.queries(tiles_.q, step), row, kColumns * part_);
  }

  // dQ += dA K for 32 queries and kPart columns, with atomic additions.
  __device__ __forceinline__ void add_dq(const Cursor& at) {
    constexpr int kPart = 2 * D / kSpec.warps;  // columns
    static_assert(kQueries == 2 * kGroup);
    const int row = kGroup * (warp_id() % 2), column = kPart * (warp_id() / 2);
    Products<2, kPart / 8> dq;
    clear(dq);
#pragma unroll
    for (int k = 0; k < kKeys; k += 16) {
      uint32_t a[2][4];
      ldsm_step_trans(Pairs{tiles_.a}, k, row, a);
      mma_pb(dq, a, Tile{tiles_.k}, k, column);
    }
    const int64_t head = b_ * p_.of.forward.heads_q + at.head;
    float* const sums = p_.sums + (head * p_.rows + at.tile * kQueries + row) * D + column * 16;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int n = 0; n < kPart / 8; ++n) add_fragment(sums + m * (16 * D) + n * 128, dq[m][n]);
    }
  }

  __device__ __forceinline__ void store(const Products<2, kColumns / 8>& c, T* tile, const Strided& to, bool whole,
                                        int dim, float scale) const {
    store_gradient(c, Tile{tile}, own_, kColumns * part_, to, whole, to.at<T>(b_, head_, rows_.first_key), first_,
                   rows_.keys, rows_.stored_keys, dim, scale);
  }

  const WalkParams& p_;
  Tiles tiles_;
  int32_t b_, head_, first_;  // batch entry, KV head, first key
  EntryRows rows_;
  int own_, part_;  // the warp's first key in the tile; the warp's number among the warps that share this key
  Products<2, kColumns / 8> dk_, dv_;
};

template <class T, class Shape, bool kFused>
__global__ void __launch_bounds__(Shape::kKeys.threads(), Shape::kKeys.blocks_per_sm)
    walk_queries(const __grid_constant__ WalkParams p) {
  SharedArena arena;
  KeyWalk<T, Shape::kKeys, kFused>(p, arena).run();
}

}  // namespace attn::backward
