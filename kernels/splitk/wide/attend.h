// A block's walk over KV tiles that have too many columns for attend()'s registers and shared memory.
//
// Shared memory has room for two KV tiles. If V is latent, both tiles are of K, and V is read from the first
// columns of K's tile:
//
//   step t:  issue K(t+1) | wait K(t) | S = Q K(t)' | softmax | O += P K(t)
//
// Otherwise one tile is of K and the other of V:
//
//   step t:  issue V(t) | wait K(t) | S = Q K(t)' | issue K(t+1) | softmax | wait V(t) | O += P V(t)
//
// A barrier ends each step, so that the next step may overwrite the tiles that this one has read. Two warps
// share 16 rows. Both compute all scores and probabilities of these rows, and each its own columns of O.
#pragma once

#include "kernels/forward/attend.h"
#include "kernels/forward/store.h"
#include "kernels/splitk/wide/shapes.h"

namespace attn {

__device__ __forceinline__ WarpPlace wide_place() {
  return {warp_id() % WideSpec::kRowWarps * 16, warp_id() / WideSpec::kRowWarps * WideSpec::kColumns};
}

// The loads of a block's tiles.
template <class Shape>
struct WideLoads {
  using T = typename Shape::T;
  using Tile = SharedTile<T, Shape::kDimQk>;
  const ForwardParams& p;
  const BlockRows& block;
  int64_t kv_head;

  __device__ void queries(Tile tile) const {
    const auto row_at = [&](int r) -> const T* {
      const int64_t row = block.first_row + r;
      if (row >= block.rows) return nullptr;
      return p.q.at<const T>(block.b, block.first_head + row % p.packed, block.entry.first_query + row / p.packed);
    };
    load_tile<Shape::kTileQ>(tile, row_at, p.dim_qk, p.q.stride[3], p.async_q);
  }
  __device__ void rows_of(const Strided& tensor, Tile tile, int64_t t, int dim, bool async) const {
    const auto row_at = [&](int r) -> const T* {
      const int64_t j = t * Shape::kTileK + r;
      return j < block.entry.keys ? key_row<T>(p, tensor, kv_head, block.b, block.entry, j) : nullptr;
    };
    load_tile<Shape::kTileK>(tile, row_at, dim, tensor.stride[3], async);
  }
  __device__ void keys(Tile tile, int64_t t) const { rows_of(p.k, tile, t, p.dim_qk, p.async_k); }
  __device__ void values(Tile tile, int64_t t) const { rows_of(p.v, tile, t, p.dim_v, p.async_v); }
};

// Turns the products of a warp's 16 rows and one tile of keys into probabilities, and rescales O.
template <class Shape>
__device__ void weigh(const ForwardParams& p, const RowView (&rows)[2], const BlockRange& range, int64_t t,
                      float (&s)[Shape::kTileK / 8][4], RowState<Shape::kColumns>& state,
                      uint32_t (&probabilities)[Shape::kTileK / 16][4]) {
  const int64_t first_key = t * Shape::kTileK;
  // If the first and the last row see all keys of a tile, it needs no masking.
  const bool plain = p.mode == ScoreMode::kFused && !p.has_mask && first_key >= range.last.begin &&
                     first_key + Shape::kTileK <= range.first.end;
  const bool probing = probed(&p.probe);
  make_scores<Shape::kTileK>(p, rows, first_key, plain, s);
  if (probing) [[unlikely]]
    probe(&p.probe, ATTN_PROBE_S, t, s);
  float alpha[2];
  online_softmax<Shape::kTileK>(s, p.sigma, state, alpha);
  if (probing) [[unlikely]] {
    probe(&p.probe, ATTN_PROBE_ROW_MAX, t, state.mu);
    probe(&p.probe, ATTN_PROBE_SCALE, t, alpha);
    probe(&p.probe, ATTN_PROBE_P, t, s);
  }
  pack_probabilities<typename Shape::T>(s, probabilities);
}

// Attends to KV tiles [tiles.begin, tiles.end). Every thread of the block must call this. kLatent: V is the first
// columns of K.
template <class Shape, bool kLatent>
__device__ void attend_wide(const ForwardParams& p, const BlockRows& block, TileSpan tiles, WarpPlace place,
                            RowState<Shape::kColumns>& state) {
  using T = typename Shape::T;
  using Tile = SharedTile<T, Shape::kDimQk>;
  if (tiles.begin >= tiles.end) return;

  SharedArena arena;
  const Tile q_tile{arena.template carve<T>(Tile::elements(Shape::kTileQ), kTileAlign)};
  const Tile even{arena.template carve<T>(Tile::elements(Shape::kTileK), kTileAlign)};
  const Tile odd{arena.template carve<T>(Tile::elements(Shape::kTileK), kTileAlign)};
  const auto k_tile = [&](int64_t t) { return kLatent && t % 2 != 0 ? odd : even; };
  const auto v_tile = [&](int64_t t) { return kLatent ? k_tile(t) : odd; };

  const WideLoads<Shape> load = {p, block, block.first_head / p.group};
  const int64_t my_row = block.first_row + place.row + lane_id() / 4;
  const RowView rows[2] = {row_view(p, block, my_row), row_view(p, block, my_row + 8)};
  const BlockRange range = block_range<Shape>(p, block);
  if (probed(&p.probe)) [[unlikely]]
    probe_rows(p, rows, my_row, block.rows);

  // With few rows or few columns some warps have nothing to compute; they only help to load.
  const bool works = block.first_row + place.row < block.rows && place.column < p.dim_v;
  const int k_extent = (p.dim_qk + 15) / 16 * 16, past = (p.dim_v + 15) / 16 * 16 - place.column;
  const int n_extent = past < Shape::kColumns ? past : Shape::kColumns;

  load.queries(q_tile);
  load.keys(k_tile(tiles.begin), tiles.begin);
  cp_commit();
  for (int64_t t = tiles.begin; t < tiles.end; ++t) {
    const bool more = t + 1 < tiles.end;
    if (!kLatent) load.values(odd, t);
    if (kLatent && more) load.keys(k_tile(t + 1), t + 1);
    cp_commit();
    cp_wait<1>();
    cta_sync();

    float s[Shape::kTileK / 8][4] = {};
    if (works) mma_abt<Shape::kTileK>(s, q_tile, place.row, k_tile(t), k_extent);
    if (!kLatent) {
      cta_sync();
      if (more) load.keys(even, t + 1);
      cp_commit();
    }
    uint32_t probabilities[Shape::kTileK / 16][4];
    if (works) weigh<Shape>(p, rows, range, t, s, state, probabilities);
    if (!kLatent) {
      cp_wait<1>();
      cta_sync();
    }
    if (works) {
      mma_pb<Shape::kTileK>(state.o, probabilities, v_tile(t).from_column(place.column), n_extent);
      if (probed(&p.probe)) [[unlikely]]
        probe(&p.probe, ATTN_PROBE_O, t, state.o);
    }
    cta_sync();
  }
}

}  // namespace attn
