// P and dA of groups of queries and keys in registers, from products to A fragments, and copies of rows to and
// from shared memory.
#pragma once

#include "kernels/fa1_backward/walk_params.h"
#include "kernels/fa1_backward/walk_rows.h"
#include "kernels/primitives/copy.h"
#include "kernels/primitives/matrix_rows.h"

namespace attn::backward {

// Products of 16 M rows and 8 N columns.
template <int M, int N>
using Products = float[M][N][4];

template <int M, int N>
__device__ __forceinline__ void clear(float (&c)[M][N][4]) {
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) c[m][n][0] = c[m][n][1] = c[m][n][2] = c[m][n][3] = 0;
  }
}

// Replaces s = q.k by P, and g = dO.v by dA.
__device__ __forceinline__ void weigh_pair(float sigma, float lse2, float delta, float& s, float& g) {
  s = ex2(fma(s, sigma, -lse2));
  g = s * (g - delta);
}

// Sets c to 0 for pairs that do not see each other or do not exist. `query` and `key`: the query and key of
// this thread's first pair. If kTransposed, rows are keys.
template <bool kTransposed, int M, int N>
__device__ __forceinline__ void hide(const WalkParams& p, const EntryRows& rows, int32_t query, int32_t key,
                                     float (&c)[M][N][4]) {
  const int32_t away = key - query - rows.shift, least = -p.left - away, most = p.right - away;
  const int32_t queries = rows.queries - query, keys = rows.keys - key;
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = 16 * m + 8 * (e / 2), column = 8 * n + e % 2;
        const int i = kTransposed ? column : row, j = kTransposed ? row : column;
        const bool seen = i < queries && j < keys && j - i >= least && j - i <= most;
        c[m][n][e] = seen ? c[m][n][e] : 0.0f;
      }
    }
  }
}

// Does the same for both P and dA.
template <bool kTransposed, int M, int N>
__device__ __forceinline__ void hide(const WalkParams& p, const EntryRows& rows, int32_t query, int32_t key,
                                     float (&s)[M][N][4], float (&g)[M][N][4]) {
  hide<kTransposed>(p, rows, query, key, s);
  hide<kTransposed>(p, rows, query, key, g);
}

// Columns 16 k..16 k + 15 of c as A fragments, rounded to T.
template <class T, int M, int N>
__device__ __forceinline__ void to_fragments(const float (&c)[M][N][4], int k, uint32_t (&a)[M][4]) {
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int e = 0; e < 4; ++e)
      a[m][e] = pack2<T>(c[m][2 * k + e / 2][e % 2 * 2], c[m][2 * k + e / 2][e % 2 * 2 + 1]);
  }
}

// All columns of a warp's 16 rows as A fragments, rounded to T.
template <class T, int N>
__device__ __forceinline__ void pack_rows(const float (&c)[N][4], uint32_t (&a)[N / 2][4]) {
#pragma unroll
  for (int k = 0; k < N / 2; ++k) {
#pragma unroll
    for (int e = 0; e < 4; ++e)
      a[k][e] = pack2<T>(c[2 * k + e / 2][e % 2 * 2], c[2 * k + e / 2][e % 2 * 2 + 1]);
  }
}

// Stores A fragments to columns column..column + 15 of 16 M rows of a tile.
template <int M, class T, int D>
__device__ __forceinline__ void store_fragments(SharedTile<T, D> tile, int row, int column,
                                                const uint32_t (&a)[M][4]) {
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      T* const to =
          tile.at(row + 16 * m + 8 * (e % 2) + lane_id() / 4, column + 8 * (e / 2) + 2 * (lane_id() % 4));
      *reinterpret_cast<uint32_t*>(to) = a[m][e];
    }
  }
}

// Starts the copies of rows first..first + kRows - 1 of a head, whose row 0 is at `head`. Rows from `last` on
// and columns from `dim` on become zeros. All threads of the block call it.
template <int kRows, int kBlock, class T, int D>
__device__ __forceinline__ void copy_rows(SharedTile<T, D> tile, const T* head, const int64_t& stride,
                                          int32_t first, int32_t last, int dim) {
  constexpr int kChunks = D / 8, kStep = kBlock / kChunks;
  static_assert(kStep % 8 == 0 && kRows % kStep == 0, "a thread's swizzled column is the same in all its rows");
  const int row = thread_id() / kChunks, column = thread_id() % kChunks * 8;
  const T* from = head + static_cast<int64_t>(first + row) * stride + column;
  T* const to = tile.at(row, column);
  const int32_t left = column < dim ? last - first - row : 0;
#pragma unroll
  for (int r = 0; r < kRows; r += kStep) {
    cp_async16(to + r * D, from, r < left);
    from += kStep * stride;
  }
}

// Starts the copies of LSE and D of kRows queries. `from` is the first of them.
template <int kRows>
__device__ __forceinline__ void copy_saved(float* lse2, float* delta, const WalkParams& p, int64_t from) {
  constexpr int kChunks = kRows / 4;
  const int n = thread_id() % kChunks * 4;
  if (thread_id() < kChunks)
    cp_async16(lse2 + n, p.lse2 + from + n, true);
  else if (thread_id() < 2 * kChunks)
    cp_async16(delta + n, p.delta + from + n, true);
}

// Stores 16 M rows and 8 N columns of a gradient times `scale`, in 16-byte chunks. They go through `tile` at
// (row, column); no other warp may use that part of the tile any more. `first` is the first row of the tile;
// `head` has row 0. Rows from `last` on are not stored, and rows from `length` on are stored as 0.
template <int M, int N, class T, int D>
__device__ __forceinline__ void store_gradient(const float (&c)[M][N][4], SharedTile<T, D> tile, int row,
                                               int column, const Strided& to, bool whole, T* head,
                                               int32_t first, int32_t length, int32_t last, int dim,
                                               float scale) {
  const int lane = lane_id();
  syncwarp();  // other lanes may still read these rows
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int mine = row + 16 * m + 8 * r + lane / 4;
      const bool there = first + mine < length;
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const uint32_t word = pack2<T>(c[m][n][2 * r] * scale, c[m][n][2 * r + 1] * scale);
        *reinterpret_cast<uint32_t*>(tile.at(mine, column + 8 * n + 2 * (lane % 4))) = there ? word : 0;
      }
    }
  }
  syncwarp();
  constexpr int kStep = 32 / N;
  const int at = column + lane % N * 8;
#pragma unroll
  for (int r = lane / N; r < 16 * M; r += kStep) {
    if (at >= dim || first + row + r >= last) continue;
    store_chunk(head + (first + row + r) * to.stride[2] + at * to.stride[3], to.stride[3], whole,
                *reinterpret_cast<const Chunk*>(tile.at(row + r, at)));
  }
}

}  // namespace attn::backward
