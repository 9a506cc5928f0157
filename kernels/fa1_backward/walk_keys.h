// dQ of a tile of 128 queries, 32 per warp. One step takes one tile of keys:
//
//   wait for K, V | barrier | start to load the next K, V
//   for each group of 32 keys:  S = Q K^T, dP = dO V^T  |  P, dA  |  dQ += dA K
#pragma once

#include "kernels/fa1_backward/walk_pairs.h"
#include "kernels/primitives/barrier.h"
#include "kernels/primitives/shared.h"

namespace attn::backward {

template <class T, QuerySpec kSpec>
struct QueryTiles {
  using Tile = SharedTile<T, kSpec.dim>;
  static constexpr int kQueries = QuerySpec::kQueries;
  T *q, *dout, *k, *v;  // k, v: two tiles
  float *lse2, *delta;

  __device__ __forceinline__ explicit QueryTiles(SharedArena& arena)
      : q(arena.carve<T>(Tile::elements(kQueries), 1024)),
        dout(arena.carve<T>(Tile::elements(kQueries), 1024)),
        k(arena.carve<T>(2 * Tile::elements(kSpec.keys), 1024)),
        v(arena.carve<T>(2 * Tile::elements(kSpec.keys), 1024)),
        lse2(arena.carve<float>(kQueries)),
        delta(arena.carve<float>(kQueries)) {}

  static constexpr size_t bytes() {
    return (2 * kQueries + 4 * static_cast<size_t>(kSpec.keys)) * kSpec.dim * sizeof(T) + 2 * kQueries * sizeof(float);
  }
  __device__ __forceinline__ Tile keys(T* of, int step, int row = 0) const {
    return {of + ((step & 1) * kSpec.keys + row) * kSpec.dim};
  }
};

template <class T, QuerySpec kSpec>
class QueryWalk {
 public:
  __device__ __forceinline__ explicit QueryWalk(const WalkParams& p, SharedArena& arena) : p_(p), tiles_(arena) {
    const ForwardParams& f = p.of.forward;
    const int32_t tiles = static_cast<int32_t>((f.seq_q + kQueries - 1) / kQueries);
    const int32_t block = static_cast<int32_t>(blockIdx.x), head = block / tiles;
    b_ = head / f.heads_q, head_ = static_cast<int32_t>(head % f.heads_q);
    // The last tiles start first: under a causal mask they see the most keys.
    first_ = (tiles - 1 - block % tiles) * kQueries;
    rows_ = entry_rows(p, b_);
    own_ = kGroup * warp_id();
  }

  __device__ __forceinline__ void run() {
    if (first_ >= rows_.queries) return;  // the whole block returns
    const ForwardParams& f = p_.of.forward;
    const Span tiles = key_tiles(p_, rows_, first_, kQueries, kSpec.keys);
    clear(dq_);
    if (!tiles.empty()) {
      copy_own();
      copy_keys(tiles.begin, 0);
      cp_commit();
      for (int32_t tile = tiles.begin; tile < tiles.end; ++tile) {
        const int step = tile - tiles.begin;
        cp_wait<0>();
        cta_sync();
        if (step == 0) read_saved();
        if (tile + 1 < tiles.end) {
          copy_keys(tile + 1, step + 1);
          cp_commit();
        }
        const bool plain = all_meet(p_, rows_, first_, kQueries, tile * kSpec.keys, kSpec.keys);
#pragma unroll
        for (int row = 0; row < kSpec.keys; row += kGroup) take(tile, step, row, plain);
      }
    }
    // Only this warp reads its rows of Q.
    store_gradient(dq_, Tile{tiles_.q}, own_, 0, p_.of.dq, p_.whole.dq, p_.of.dq.at<T>(b_, head_, rows_.first_query),
                   first_, rows_.queries, rows_.queries, f.dim_qk, f.scale);
  }

 private:
  static constexpr int D = kSpec.dim, kQueries = QuerySpec::kQueries, kBlock = QuerySpec::threads();
  using Tiles = QueryTiles<T, kSpec>;
  using Tile = typename Tiles::Tile;

  __device__ __forceinline__ void copy_own() const {
    const ForwardParams& f = p_.of.forward;
    const Strided& dout = p_.of.dout;
    copy_rows<kQueries, kBlock>(Tile{tiles_.q}, f.q.at<const T>(b_, head_, rows_.first_query), f.q.stride[2], first_,
                                rows_.queries, f.dim_qk);
    copy_rows<kQueries, kBlock>(Tile{tiles_.dout}, dout.at<const T>(b_, head_, rows_.first_query), dout.stride[2],
                                first_, rows_.queries, f.dim_v);
    static_assert(kWorkRows % kQueries == 0);
    copy_saved<kQueries>(tiles_.lse2, tiles_.delta, p_, (b_ * f.heads_q + head_) * p_.rows + first_);
  }

  __device__ __forceinline__ void copy_keys(int32_t tile, int step) const {
    const ForwardParams& f = p_.of.forward;
    const int64_t kv_head = head_ / f.group;
    const int32_t first = tile * kSpec.keys;
    copy_rows<kSpec.keys, kBlock>(tiles_.keys(tiles_.k, step), f.k.at<const T>(b_, kv_head, rows_.first_key),
                                  f.k.stride[2], first, rows_.keys, f.dim_qk);
    copy_rows<kSpec.keys, kBlock>(tiles_.keys(tiles_.v, step), f.v.at<const T>(b_, kv_head, rows_.first_key),
                                  f.v.stride[2], first, rows_.keys, f.dim_v);
  }

  // LSE and D of this thread's rows; 0 past the last query.
  __device__ __forceinline__ void read_saved() {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int row = own_ + 8 * n + lane_id() / 4;
      const bool there = first_ + row < rows_.queries;
      lse2_[n] = there ? tiles_.lse2[row] : 0.0f;
      delta_[n] = there ? tiles_.delta[row] : 0.0f;
    }
  }

  // Takes 32 keys of the tile, from its row `row` on.
  __device__ __forceinline__ void take(int32_t tile, int step, int row, bool plain) {
    Products<2, kGroup / 8> s, g;
    clear(s);
    clear(g);
    mma_abt<kGroup>(s, Tile{tiles_.q}, own_, tiles_.keys(tiles_.k, step, row));
    mma_abt<kGroup>(g, Tile{tiles_.dout}, own_, tiles_.keys(tiles_.v, step, row));
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int n = 0; n < kGroup / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          weigh_pair(p_.sigma, lse2_[2 * m + e / 2], delta_[2 * m + e / 2], s[m][n][e], g[m][n][e]);
      }
    }
    if (!plain)
      hide<false>(p_, rows_, first_ + own_ + lane_id() / 4, tile * kSpec.keys + row + 2 * (lane_id() % 4), s, g);
#pragma unroll
    for (int k = 0; k < kGroup / 16; ++k) {
      uint32_t a[2][4];
      to_fragments<T>(g, k, a);
      mma_pb(dq_, a, tiles_.keys(tiles_.k, step), row + 16 * k);
    }
  }

  const WalkParams& p_;
  Tiles tiles_;
  int64_t b_;
  int32_t head_, first_;  // query head, and first query
  EntryRows rows_;
  int own_;                   // the warp's first query in the tile
  float lse2_[4], delta_[4];  // of rows 8 n + lane / 4
  Products<2, D / 8> dq_;
};

template <class T, class Shape>
__global__ void __launch_bounds__(QuerySpec::threads(), Shape::kQueries.blocks_per_sm)
    walk_keys(const __grid_constant__ WalkParams p) {
  SharedArena arena;
  QueryWalk<T, Shape::kQueries>(p, arena).run();
}

}  // namespace attn::backward
