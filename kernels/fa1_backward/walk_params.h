// The parameters of the fast way, and what a block derives from them: its rows, the pairs that see each other,
// and the tiles that it walks over.
#pragma once

#include "kernels/fa1_backward/tiles.h"
#include "kernels/fa1_backward/walk_shapes.h"

namespace attn::backward {

// Sequences are shorter than this, and an unbounded side of a window has twice this length, so that sums of a
// few positions fit 32 bits.
inline constexpr int32_t kLongest = 1 << 28;

// The rows of a head in the workspace are a multiple of kWorkRows. The kernels of walk_rows.h have kRowTile
// rows a block.
inline constexpr int kWorkRows = 128, kRowTile = 64;

// Which tensors have rows of whole, aligned 16-byte chunks. Q, K and V always do.
struct Whole {
  bool o, dout, dq, dk, dv;
};

struct WalkParams {
  Params of;            // of.dout is the copy of dO, if there is one
  Strided given_dout;   // dO as the caller gave it
  Whole whole;          // of the caller's tensors
  float sigma;          // the scale times log2 e
  int32_t left, right;  // the window, at most 2 kLongest
  int32_t rows;         // of a head in the workspace
  float *lse2, *delta;  // [b][h][rows]: LSE times log2 e, and D; 0 after the last query
  uint32_t* taken;      // the number of items that blocks have taken; nullptr if not fused
  float* sums;          // [b][h][rows / 16][dim / 8] fragments: dQ before it is scaled; nullptr if not fused
};

struct Span {
  int32_t begin, end;
  __device__ __forceinline__ bool empty() const { return end <= begin; }
};

// The rows of a batch entry in 32 bits. Query i and key j see each other if -left <= j - i - shift <= right.
struct EntryRows {
  int64_t first_query, first_key;
  int32_t queries, keys, stored_keys, shift;
};

__device__ __forceinline__ EntryRows entry_rows(const WalkParams& p, int64_t b) {
  const Rows rows = rows_of(p.of.forward, b);
  EntryRows entry;
  entry.first_query = rows.first_query, entry.first_key = rows.first_key;
  entry.queries = static_cast<int32_t>(rows.queries), entry.keys = static_cast<int32_t>(rows.keys);
  entry.stored_keys = static_cast<int32_t>(rows.stored_keys);
  entry.shift = p.of.forward.bottom_right ? entry.keys - entry.queries : 0;
  return entry;
}

// The tiles, of `tile` queries each, in which some query may see some key of [first, first + count).
__device__ __forceinline__ Span query_tiles(const WalkParams& p, const EntryRows& rows, int32_t first,
                                            int32_t count, int tile) {
  const int32_t past = first + count < rows.keys ? first + count : rows.keys;
  if (past <= first) return {0, 0};
  const int32_t begin = first - rows.shift - p.right, end = past - rows.shift + p.left;
  const int32_t last = end < rows.queries ? end : rows.queries;
  if (last <= 0 || last <= begin) return {0, 0};
  return {begin > 0 ? begin / tile : 0, (last + tile - 1) / tile};
}

// The tiles, of `tile` keys each, in which some key may be seen by some query of [first, first + count).
__device__ __forceinline__ Span key_tiles(const WalkParams& p, const EntryRows& rows, int32_t first,
                                          int32_t count, int tile) {
  const int32_t past = first + count < rows.queries ? first + count : rows.queries;
  if (past <= first) return {0, 0};
  const int32_t begin = first + rows.shift - p.left, end = past + rows.shift + p.right;
  const int32_t last = end < rows.keys ? end : rows.keys;
  if (last <= 0 || last <= begin) return {0, 0};
  return {begin > 0 ? begin / tile : 0, (last + tile - 1) / tile};
}

// True if all these queries and keys exist and each query sees each key.
__device__ __forceinline__ bool all_meet(const WalkParams& p, const EntryRows& rows, int32_t query, int queries,
                                         int32_t key, int keys) {
  const int32_t nearest = key - query - rows.shift;
  return query + queries <= rows.queries && key + keys <= rows.keys && nearest + (keys - 1) <= p.right &&
         nearest - (queries - 1) >= -p.left;
}

// The position of a walk: a tile of queries of one head.
struct Cursor {
  int32_t head, tile;
  __device__ __forceinline__ void next(const Span& tiles) {
    if (++tile == tiles.end) tile = tiles.begin, ++head;
  }
};

}  // namespace attn::backward
