// The backward pass on tensor cores, for 16-bit inputs of up to 128 columns. P and dA are rounded to the
// input's format.
//
//   dkdv_mma    a block has 64 keys of a KV head, a warp 16 of them. S' = K Q^T and dP' = V dO^T are transposed, so
//               that the accumulators of P' and dA' already are A fragments: dV += P' dO, dK += dA' Q
//   dq_mma      a block has 64 queries, a warp 16 of them: S = Q K^T, dP = dO V^T, dQ += dA K
//
// A hidden pair has P = dA = 0 in a product. If the row of its query or of its key has a NaN, the gradient of
// the other row gets NaN in the same column, because 0 times NaN is NaN.
#pragma once

#include "kernels/fa1_backward/tiles.h"
#include "kernels/forward/tile_loader.h"

namespace attn::backward {

inline constexpr int kOwn = 16 * kWarps;  // rows of a block's results
inline constexpr int kWalk = 32;          // rows of the tiles that a block walks over

// Shared memory of a block: `own` are the rows whose gradients it computes, `walk` the rows that it walks over.
template <class T, int D>
struct MmaTiles {
  SharedTile<T, D> own[2], walk[2];
  float *lse, *delta;  // of the queries

  __device__ explicit MmaTiles(SharedArena& arena) {
    for (auto& tile : own) tile = {arena.carve<T>(SharedTile<T, D>::elements(kOwn), 128)};
    for (auto& tile : walk) tile = {arena.carve<T>(SharedTile<T, D>::elements(kWalk), 128)};
    lse = arena.carve<float>(kOwn);
    delta = arena.carve<float>(kOwn);
  }
  static constexpr size_t bytes() {
    return 2 * shared_bytes<T>(SharedTile<T, D>::elements(kOwn), 128) +
           2 * shared_bytes<T>(SharedTile<T, D>::elements(kWalk), 128) + 2 * shared_bytes<float>(kOwn);
  }
};

// Loads rows first..first + kRows - 1 of a head. Its row 0 is stored at row `base` of the tensor. Rows from
// `last` on become 0.
template <int kRows, class T, int D>
__device__ void load_some(SharedTile<T, D> tile, const Strided& from, int64_t b, int64_t h, int64_t base,
                          int64_t first, int64_t last, int dim) {
  const auto row_at = [&](int row) -> const T* {
    return first + row < last ? from.at<T>(b, h, base + first + row) : nullptr;
  };
  load_tile<kRows>(tile, row_at, dim, from.stride[3], false);
}

// Loads LSE and D of kRows queries.
template <int kRows>
__device__ void load_saved(const Params& p, float* lse, float* delta, const Rows& rows, int64_t b, int64_t h,
                           int64_t first) {
  const ForwardParams& f = p.forward;
  const int row = thread_id();
  if (row >= kRows) return;
  const bool there = first + row < rows.queries;
  lse[row] = there ? *f.lse.at<float>(b, h, rows.first_query + first + row) : 0.0f;
  delta[row] = there ? p.delta[(b * f.heads_q + h) * f.seq_q + first + row] : 0.0f;
}

// Accumulators of 16 rows and kWalk columns as A fragments, rounded to T.
template <class T>
__device__ void to_fragments(const float (&c)[kWalk / 8][4], uint32_t (&a)[kWalk / 16][4]) {
#pragma unroll
  for (int k = 0; k < kWalk / 16; ++k) {
    a[k][0] = pack2<T>(c[2 * k][0], c[2 * k][1]);
    a[k][1] = pack2<T>(c[2 * k][2], c[2 * k][3]);
    a[k][2] = pack2<T>(c[2 * k + 1][0], c[2 * k + 1][1]);
    a[k][3] = pack2<T>(c[2 * k + 1][2], c[2 * k + 1][3]);
  }
}

__device__ inline int whole(int dim) { return (dim + 15) / 16 * 16; }

// Stores a warp's 16 rows of a gradient times `scale`. `first` is the first of them; row 0 of the entry is
// stored at row `base` of the tensor. Rows from `length` on (keys past the key length) are stored as 0, because
// their sums may contain the NaN of a query.
template <class T, int D>
__device__ void store_rows(const float (&c)[D / 8][4], const Strided& to, int64_t b, int64_t h, int64_t base,
                           int64_t first, int64_t length, int64_t last, int dim, float scale) {
#pragma unroll
  for (int n = 0; n < D / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int64_t row = first + lane_id() / 4 + 8 * (e / 2);
      const int column = 8 * n + 2 * (lane_id() % 4) + e % 2;
      if (row >= last || column >= dim) continue;
      store(to.at<T>(b, h, base + row) + column * to.stride[3], row < length ? c[n][e] * scale : 0.0f);
    }
  }
}

template <int N>
__device__ void clear(float (&c)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n) c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0;
}

// Turns products q.k and dO.v into P and dA, in place. If `transposed`, rows are keys.
template <bool transposed>
__device__ void weigh(const Params& p, const float* lse, const float* delta, const Rows& rows, int64_t b, int64_t h,
                      int64_t first_row, int64_t first_column, int row_in_block,
                      float (&s)[kWalk / 8][4], float (&g)[kWalk / 8][4]) {
#pragma unroll
  for (int n = 0; n < kWalk / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int row = row_in_block + lane_id() / 4 + 8 * (e / 2), column = 8 * n + 2 * (lane_id() % 4) + e % 2;
      const int query = transposed ? column : row;
      const int64_t i = transposed ? first_column + column : first_row + row;
      const int64_t j = transposed ? first_row + row : first_column + column;
      float bias;
      Pair pair = {0.0f, 0.0f, 0.0f};
      if (sees(p.forward, rows, b, h, i, j, &bias))
        pair = pair_of(p, s[n][e], g[n][e], bias, lse[query], delta[query]);
      s[n][e] = pair.p;
      g[n][e] = pair.a;
    }
  }
}

template <class T, int D>
__global__ void dkdv_mma(const __grid_constant__ Params p) {
  const ForwardParams& f = p.forward;
  SharedArena arena;
  const MmaTiles<T, D> tiles(arena);
  const auto [k, v] = tiles.own;
  const auto [q, dout] = tiles.walk;
  const Place at = place(p.heads_kv, f.seq_k, kOwn);
  const Rows rows = rows_of(f, at.b);
  if (at.first >= rows.stored_keys) return;
  const int own = 16 * warp_id(), qk = whole(f.dim_qk), vo = whole(f.dim_v);
  load_some<kOwn>(k, f.k, at.b, at.h, rows.first_key, at.first, rows.keys, f.dim_qk);
  load_some<kOwn>(v, f.v, at.b, at.h, rows.first_key, at.first, rows.keys, f.dim_v);

  float dk[D / 8][4], dv[D / 8][4];
  clear(dk);
  clear(dv);
  for (int64_t h = at.h * f.group; h < (at.h + 1) * f.group; ++h) {
    for (int64_t first_query = 0; first_query < rows.queries; first_query += kWalk) {
      if (!meet(f, rows, first_query, kWalk, at.first, kOwn)) continue;
      load_some<kWalk>(q, f.q, at.b, h, rows.first_query, first_query, rows.queries, f.dim_qk);
      load_some<kWalk>(dout, p.dout, at.b, h, rows.first_query, first_query, rows.queries, f.dim_v);
      load_saved<kWalk>(p, tiles.lse, tiles.delta, rows, at.b, h, first_query);
      cta_sync();
      float s[kWalk / 8][4], g[kWalk / 8][4];
      clear(s);
      clear(g);
      mma_abt<kWalk>(s, k, own, q, qk);
      mma_abt<kWalk>(g, v, own, dout, vo);
      weigh<true>(p, tiles.lse, tiles.delta, rows, at.b, h, at.first, first_query, own, s, g);
      uint32_t weights[kWalk / 16][4], slopes[kWalk / 16][4];
      to_fragments<T>(s, weights);
      to_fragments<T>(g, slopes);
      mma_pb<kWalk>(dv, weights, dout, vo);
      mma_pb<kWalk>(dk, slopes, q, qk);
      cta_sync();
    }
  }
  const int64_t first = at.first + own, base = rows.first_key;
  store_rows<T, D>(dk, p.dk, at.b, at.h, base, first, rows.keys, rows.stored_keys, f.dim_qk, f.scale);
  store_rows<T, D>(dv, p.dv, at.b, at.h, base, first, rows.keys, rows.stored_keys, f.dim_v, 1.0f);
}

template <class T, int D>
__global__ void dq_mma(const __grid_constant__ Params p) {
  const ForwardParams& f = p.forward;
  SharedArena arena;
  const MmaTiles<T, D> tiles(arena);
  const auto [q, dout] = tiles.own;
  const auto [k, v] = tiles.walk;
  const Place at = place(f.heads_q, f.seq_q, kOwn);
  const Rows rows = rows_of(f, at.b);
  if (at.first >= rows.queries) return;
  const int64_t kv_head = at.h / f.group;
  const int own = 16 * warp_id(), qk = whole(f.dim_qk), vo = whole(f.dim_v);
  load_some<kOwn>(q, f.q, at.b, at.h, rows.first_query, at.first, rows.queries, f.dim_qk);
  load_some<kOwn>(dout, p.dout, at.b, at.h, rows.first_query, at.first, rows.queries, f.dim_v);
  load_saved<kOwn>(p, tiles.lse, tiles.delta, rows, at.b, at.h, at.first);

  float dq[D / 8][4];
  clear(dq);
  for (int64_t first_key = 0; first_key < rows.keys; first_key += kWalk) {
    if (!meet(f, rows, at.first, kOwn, first_key, kWalk)) continue;
    load_some<kWalk>(k, f.k, at.b, kv_head, rows.first_key, first_key, rows.keys, f.dim_qk);
    load_some<kWalk>(v, f.v, at.b, kv_head, rows.first_key, first_key, rows.keys, f.dim_v);
    cta_sync();
    float s[kWalk / 8][4], g[kWalk / 8][4];
    clear(s);
    clear(g);
    mma_abt<kWalk>(s, q, own, k, qk);
    mma_abt<kWalk>(g, dout, own, v, vo);
    weigh<false>(p, tiles.lse, tiles.delta, rows, at.b, at.h, at.first, first_key, own, s, g);
    uint32_t slopes[kWalk / 16][4];
    to_fragments<T>(g, slopes);
    mma_pb<kWalk>(dq, slopes, k, qk);
    cta_sync();
  }
  store_rows<T, D>(dq, p.dq, at.b, at.h, rows.first_query, at.first + own, rows.queries, rows.queries, f.dim_qk,
                   f.scale);
}

}  // namespace attn::backward
