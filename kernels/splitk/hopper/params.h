// The parameters of the decode kernel, passed by value, and what a block derives from them: its part of the
// keys.
#pragma once

#include "kernels/forward/attend.h"
#include "kernels/forward/score_terms.h"
#include "kernels/forward/split_params.h"
#include "kernels/forward/warpgroup_softmax.h"
#include "kernels/primitives/tma.h"
#include "kernels/splitk/hopper/shapes.h"

namespace attn {

// Sequences are shorter than this, so that positions of keys have 32 bits.
inline constexpr int64_t kDecodeSequence = int64_t{1} << 28;

struct DecodeParams {
  TensorMap k, v;  // boxes of a tile's keys, or of box_rows keys of a page
  ForwardParams forward;
  SplitParams split;
  uint32_t items;  // splits of all KV heads of all batch entries, less than 2^31
  uint32_t splits, split_tiles, heads_kv, packed;
  int32_t rows;       // queries times query heads of a KV head: at most 64
  int32_t box_rows;   // keys of a box if keys lie in pages: a divisor of the page size and of a tile; else 0
  bool direct;        // there is one split, which goes to O and LSE
  bool whole;         // every query sees all keys up to the length
  bool windowed;      // the first keys may be hidden
  float sign, sigma;  // score = sign * product; its weight is 2^(sigma * score), relative to the maximum
  ScoreTerms terms;   // for scored shapes, which have sign and sigma 1
};

// An item: one split of one KV head, with all its query heads and all queries. Row r of the tile is query r /
// packed of head r % packed, as in BlockRows.
struct Part {
  int32_t split, b, kv_head;
  int32_t length;  // keys of this batch entry
  Keys tiles;      // the tiles to walk over; if there are none, the split's result is 0 and -inf
  Keys plain;      // tiles that need no mask_scores(): all rows see all keys, and sign is 1
};

// The query of a row, for a probe: b, h, i. Past the last query, i is -1.
__device__ __forceinline__ void place_of(const DecodeParams& p, const Part& part, int32_t row,
                                         float (&place)[3]) {
  place[0] = static_cast<float>(part.b);
  place[1] =
      static_cast<float>(part.kv_head * static_cast<int32_t>(p.packed) + row % static_cast<int32_t>(p.packed));
  place[2] = row < p.rows ? static_cast<float>(row / static_cast<int32_t>(p.packed)) : -1.0f;
}

// The keys that query i may see; an empty interval if none.
__device__ __forceinline__ Keys query_keys(const DecodeParams& p, int32_t length, int32_t i) {
  if (p.whole) return {0, length};
  const KeyRange range = visible_range(p.forward, length, i);
  return {static_cast<int32_t>(range.begin), static_cast<int32_t>(range.end)};
}

// The keys of batch entry b.
__device__ __forceinline__ int32_t keys_of(const ForwardParams& p, uint32_t b) {
  if (p.key_lengths == nullptr) return static_cast<int32_t>(p.seq_k);
  const int64_t length = index_at(p, p.key_lengths, b);
  return static_cast<int32_t>(length < 0 ? 0 : length < p.seq_k ? length : p.seq_k);
}

// The item with number `item`. Numbers run over splits fastest, then KV heads, then batch entries.
template <int kTileK>
__device__ __forceinline__ Part part_of(const DecodeParams& p, uint32_t item) {
  const uint32_t head = item / p.splits, b = head / p.heads_kv, split = item - head * p.splits;
  Part part;
  part.b = static_cast<int32_t>(b);
  part.kv_head = static_cast<int32_t>(head - b * p.heads_kv);
  part.split = static_cast<int32_t>(split);
  part.length = keys_of(p.forward, b);
  // Ranges move monotonically with the query, so the first and the last query's ranges bound all others.
  const Keys first = query_keys(p, part.length, 0);
  const Keys last = query_keys(p, part.length, static_cast<int32_t>(p.forward.seq_q) - 1);
  const int32_t begin = static_cast<int32_t>(split * p.split_tiles), end = begin + p.split_tiles;
  const int32_t live_begin = first.begin / kTileK, live_end = (last.end + kTileK - 1) / kTileK;
  part.tiles = {live_begin > begin ? live_begin : begin, live_end < end ? live_end : end};
  if (last.end <= first.begin || part.tiles.end < part.tiles.begin) part.tiles.end = part.tiles.begin;
  part.plain = {(last.begin + kTileK - 1) / kTileK, first.end < 0 || p.sign < 0 ? 0 : first.end / kTileK};
  return part;
}

}  // namespace attn
