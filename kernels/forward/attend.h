// One block's walk over KV tiles, which FA-1's general path and Split-K's partial kernel share. Each warp owns
// 16 query rows; K and V tiles are double-buffered in swizzled shared memory and loaded by asynchronous copies.
//
//   step t:  issue V(t) | wait K(t) | S = Q K(t)' | issue K(t+1) | softmax | wait V(t) | O += P V(t)
//
// With two buffers for K and two for V, two barriers per step suffice: before a thread overwrites a buffer, it
// has passed a barrier that every reader reached after its last read.
#pragma once

#include "kernels/forward/narrow_loader.h"
#include "kernels/forward/online_softmax.h"
#include "kernels/forward/params.h"
#include "kernels/forward/probe_rows.h"
#include "kernels/forward/scores.h"
#include "kernels/forward/tile_loader.h"
#include "kernels/primitives/barrier.h"
#include "kernels/primitives/matrix.h"
#include "kernels/primitives/probe.h"
#include "kernels/primitives/shared.h"

namespace attn {

// Alignment of tiles in bytes, so that the swizzle's pattern starts at the first row.
inline constexpr size_t kTileAlign = 1024;

// The compile-time shape of an instantiation (see shapes.h). Tiles of Q, K and V have room for kDim columns.
template <class T_, int kDim_, int kTileQ_, int kTileK_>
struct TileShape {
  using T = T_;
  static constexpr int kDim = kDim_, kTileQ = kTileQ_, kTileK = kTileK_;
  static constexpr int kThreads = kTileQ / 16 * 32;
  static constexpr bool kNarrow = false;  // K and V have the format T, as Q has
};
// The same shape for 8-bit K and V.
template <class Shape>
struct NarrowShape : Shape {
  static constexpr bool kNarrow = true;
};

// The rows that a block works on. With `packed` heads per tile, row r is query r / packed of head
// first_head + r % packed.
struct BlockRows {
  int64_t b;
  int64_t first_head;
  int64_t first_row;
  int64_t rows;  // over all blocks of these heads: the entry's queries * packed
  Entry entry;

  __device__ bool empty() const { return first_row >= rows; }
};

// Loads tile t of `tensor`, which is K or V in 8 bits.
template <class Shape, class Tile>
__device__ void load_narrow(const ForwardParams& p, const BlockRows& block, Tile tile, const Strided& tensor, int64_t t,
                            int dim, bool by_eight) {
  const Strided& scales = &tensor == &p.k ? p.narrow.k_scale : p.narrow.v_scale;
  const int64_t first = t * Shape::kTileK, kv_head = block.first_head / p.group;
  const auto codes_at = [&](int r) -> const uint8_t* {
    const int64_t j = first + r;
    return j < block.entry.keys ? key_row<uint8_t>(p, tensor, kv_head, block.b, block.entry, j) : nullptr;
  };
  const auto scale_at = [&](int r) { return *scales.at<const float>(block.b, kv_head, first + r); };
  load_narrow_tile<Shape::kTileK>(tile, codes_at, scale_at, p.narrow.dtype, dim, tensor.stride[3], by_eight);
}

__device__ inline RowView row_view(const ForwardParams& p, const BlockRows& block, int64_t row) {
  if (row >= block.rows) return {block.b, block.first_head, 0, {0, 0}, 0};
  const int64_t i = row / p.packed;
  return {block.b, block.first_head + row % p.packed, i, visible_range(p, block.entry, i),
          diagonal_of(p, block.entry, i)};
}

// The ranges of keys that the first and the last row of a block may see, mask and bias aside. Both ends of a
// row's range move monotonically with the query, so these two ranges bound the ranges of all rows.
struct BlockRange {
  KeyRange first, last;
};

template <class Shape>
__device__ BlockRange block_range(const ForwardParams& p, const BlockRows& block) {
  const int64_t past = block.first_row + Shape::kTileQ;
  const int64_t last_row = (past < block.rows ? past : block.rows) - 1;
  return {visible_range(p, block.entry, block.first_row / p.packed),
          visible_range(p, block.entry, last_row / p.packed)};
}

struct TileSpan {
  int64_t begin, end;
};

// The KV tiles from the first to the last key that some row of the block may see.
template <class Shape>
__device__ TileSpan live_tiles(const BlockRange& range) {
  if (range.last.end <= range.first.begin) return {0, 0};
  return {range.first.begin / Shape::kTileK, (range.last.end + Shape::kTileK - 1) / Shape::kTileK};
}

// Attends to KV tiles [tiles.begin, tiles.end). Every thread of the block must call this.
template <class Shape>
__device__ void attend(const ForwardParams& p, const BlockRows& block, TileSpan tiles,
                       RowState<Shape::kDim>& state) {
  using T = typename Shape::T;
  constexpr int kTileQ = Shape::kTileQ, kTileK = Shape::kTileK, kDim = Shape::kDim;
  if (tiles.begin >= tiles.end) return;

  SharedArena arena;
  SharedTile<T, kDim> q_tile{arena.template carve<T>(kTileQ * kDim, kTileAlign)};
  SharedTile<T, kDim> k_even{arena.template carve<T>(kTileK * kDim, kTileAlign)};
  SharedTile<T, kDim> k_odd{arena.template carve<T>(kTileK * kDim, kTileAlign)};
  SharedTile<T, kDim> v_even{arena.template carve<T>(kTileK * kDim, kTileAlign)};
  SharedTile<T, kDim> v_odd{arena.template carve<T>(kTileK * kDim, kTileAlign)};
  // Selected, not indexed: an array of tiles with a dynamic index would live in local memory.
  const auto k_tile = [&](int64_t t) { return t % 2 != 0 ? k_odd : k_even; };
  const auto v_tile = [&](int64_t t) { return t % 2 != 0 ? v_odd : v_even; };

  const int64_t kv_head = block.first_head / p.group;
  const int warp_row = warp_id() * 16;
  const int64_t my_row = block.first_row + warp_row + lane_id() / 4;
  const RowView rows[2] = {row_view(p, block, my_row), row_view(p, block, my_row + 8)};
  if (probed(&p.probe)) [[unlikely]]
    probe_rows(p, rows, my_row, block.rows);

  const auto load_q = [&](int r) -> const T* {
    const int64_t row = block.first_row + r;
    if (row >= block.rows) return nullptr;
    return p.q.at<const T>(block.b, block.first_head + row % p.packed, block.entry.first_query + row / p.packed);
  };
  const auto load_keys = [&](SharedTile<T, kDim> tile, const Strided& tensor, int64_t t, int dim, bool async) {
    const auto row_at = [&](int r) -> const T* {
      const int64_t j = t * kTileK + r;
      return j < block.entry.keys ? key_row<T>(p, tensor, kv_head, block.b, block.entry, j) : nullptr;
    };
    if constexpr (Shape::kNarrow) return load_narrow<Shape>(p, block, tile, tensor, t, dim, async);
    load_tile<kTileK>(tile, row_at, dim, tensor.stride[3], async);
  };

  // A tile needs no masking if the first and the last row see all of it.
  const BlockRange range = block_range<Shape>(p, block);
  const bool may_be_plain = p.mode == ScoreMode::kFused && !p.has_mask;
  const bool probing = probed(&p.probe);

  load_tile<kTileQ>(q_tile, load_q, p.dim_qk, p.q.stride[3], p.async_q);
  load_keys(k_tile(tiles.begin), p.k, tiles.begin, p.dim_qk, p.async_k);
  cp_commit();

  const int k_extent = (p.dim_qk + 15) / 16 * 16, n_extent = (p.dim_v + 15) / 16 * 16;
  for (int64_t t = tiles.begin; t < tiles.end; ++t) {
    load_keys(v_tile(t), p.v, t, p.dim_v, p.async_v);
    cp_commit();
    cp_wait<1>();
    cta_sync();

    float s[kTileK / 8][4] = {};
    mma_abt<kTileK>(s, q_tile, warp_row, k_tile(t), k_extent);
    if (t + 1 < tiles.end) load_keys(k_tile(t + 1), p.k, t + 1, p.dim_qk, p.async_k);
    cp_commit();

    const int64_t first_key = t * kTileK;
    const bool plain = may_be_plain && first_key >= range.last.begin && first_key + kTileK <= range.first.end;
    make_scores<kTileK>(p, rows, first_key, plain, s);
    if (probing) [[unlikely]]
      probe(&p.probe, ATTN_PROBE_S, t, s);
    float alpha[2];
    online_softmax<kTileK>(s, p.sigma, state, alpha);
    if (probing) [[unlikely]] {
      probe(&p.probe, ATTN_PROBE_ROW_MAX, t, state.mu);
      probe(&p.probe, ATTN_PROBE_SCALE, t, alpha);
      probe(&p.probe, ATTN_PROBE_P, t, s);
    }

    uint32_t probabilities[kTileK / 16][4];
    pack_probabilities<T>(s, probabilities);
    cp_wait<1>();
    cta_sync();
    mma_pb<kTileK>(state.o, probabilities, v_tile(t), n_extent);
    if (probing) [[unlikely]]
      probe(&p.probe, ATTN_PROBE_O, t, state.o);
  }
}

}  // namespace attn
