// The parameters of the sm_90a kernel, passed by value, and what a block derives from them: the keys that a row
// sees, the tiles that it walks over, and the items that it computes.
#pragma once

#include "kernels/fa1/hopper/shapes.h"
#include "kernels/forward/score_terms.h"
#include "kernels/forward/warpgroup_softmax.h"
#include "kernels/primitives/atomic.h"
#include "kernels/primitives/dependent.h"
#include "kernels/primitives/tma.h"

namespace attn {

// Sequences are shorter than this, and an unbounded side of a window has twice this length, so that sums of a
// few positions fit 32 bits.
inline constexpr int32_t kHopperSequence = 1 << 28;

// The order in which packed entries are computed; it lies in the workspace. Entries with the most query tiles come
// first. The n-th of them is entry[n]; its tiles are first[n] to first[n + 1] - 1 of each head. The pointers are null
// if queries are not packed.
struct EntryOrder {
  uint32_t *entry, *first;
};

struct HopperParams {
  TensorMap q, k, v, o;  // boxes: a block's rows of q, a tile's keys of k and v, a warpgroup's rows of o
  Strided o_rows;        // O again, for the last rows of a packed entry
  int32_t dim_v;
  float* lse;            // nullptr if the caller wants none
  int64_t lse_stride[3];
  Sinks sinks;
  Slopes slopes;  // of scored shapes
  const void* key_lengths;  // nullptr if all are seq_k
  Ragged ragged;            // of shapes with lengths
  int32_t seq_q, seq_k;     // with packed entries, of the longest
  int32_t left, right;  // sides of the window; a causal mask has right = 0
  bool bottom_right;    // where the diagonal lies
  int32_t shift;        // diag(i) = i + shift if there are no key lengths
  uint32_t heads_q, group;
  uint32_t heads, q_tiles;          // query heads of all batch entries; query tiles of a head
  uint32_t entries;                 // batch entries, if the shape is scored and they share a bias; else 0
  uint32_t items;                   // heads * q_tiles, less than 2^31
  uint32_t section;                 // heads of a section, whose K and V stay in the L2
  uint32_t sections;
  uint32_t batch;
  EntryOrder order;
  uint32_t* taken;  // counts items taken after the first of each block; nullptr: see next_item()
  bool longest_first;
  bool windowed;      // the first keys may be hidden
  bool may_be_plain;  // a tile that all rows see whole needs no mask
  float sign, sigma;  // score = sign * product; exponent of two = sigma * score
  ScoreTerms terms;   // for scored shapes, which have sign and sigma 1
  attn_probe probe;   // values is null if no probe is requested
};

// One query tile of one head.
struct Work {
  int32_t tile;
  int32_t head;  // index among the heads of all batch entries, which head_of() decodes
  bool any;      // false: nothing is left to do
};

struct HeadOf {
  int32_t b, h;
};

// Heads are numbered entry by entry. If batch entries share a bias, they are numbered head by head instead, so
// that all entries read a head's bias while it is in the L2.
template <HopperSpec kSpec>
__device__ __forceinline__ HeadOf head_of(const HopperParams& p, const Work& work) {
  const bool entries_first = kSpec.scored && p.entries > 0;
  const uint32_t number = static_cast<uint32_t>(work.head), run = entries_first ? p.entries : p.heads_q;
  const int32_t outer = static_cast<int32_t>(number / run), inner = static_cast<int32_t>(number - outer * run);
  return entries_first ? HeadOf{inner, outer} : HeadOf{outer, inner};
}

// Element n of an array of lengths or offsets.
__device__ __forceinline__ int64_t number_at(const HopperParams& p, const void* array, int32_t n) {
  return p.ragged.narrow ? static_cast<const int32_t*>(array)[n] : static_cast<const int64_t*>(array)[n];
}

// The rows of packed batch entry b. `cu`: the offsets of the entries.
__device__ __forceinline__ int32_t rows_between(const HopperParams& p, const void* cu, int32_t b) {
  return static_cast<int32_t>(number_at(p, cu, b + 1) - number_at(p, cu, b));
}

// The queries of batch entry b.
template <HopperSpec kSpec>
__device__ __forceinline__ int32_t queries_of(const HopperParams& p, int32_t b) {
  if (kSpec.lengths && p.ragged.cu_q != nullptr) return rows_between(p, p.ragged.cu_q, b);
  return p.seq_q;
}

// Where the rows of a batch entry begin in Q and O, or in K and V. With packed rows, b is 0.
struct FirstRow {
  int32_t row, b;
};
template <HopperSpec kSpec>
__device__ __forceinline__ FirstRow first_row(const HopperParams& p, const void* cu, int32_t b) {
  if (kSpec.lengths && cu != nullptr) return {static_cast<int32_t>(number_at(p, cu, b)), 0};
  return {0, b};
}

// The query of a row, for a probe: b, h, i. Past the last query, i is -1.
template <HopperSpec kSpec>
__device__ __forceinline__ void place_of(const HopperParams& p, const Work& work, int32_t row,
                                         float (&place)[3]) {
  const HeadOf head = head_of<kSpec>(p, work);
  place[0] = static_cast<float>(head.b);
  place[1] = static_cast<float>(head.h);
  place[2] = row < queries_of<kSpec>(p, head.b) ? static_cast<float>(row) : -1.0f;
}

// The keys of a batch entry, and where its diagonal lies.
struct Extent {
  int32_t length;
  int32_t shift;  // diag(i) = i + shift
};

template <HopperSpec kSpec>
__device__ __forceinline__ Extent extent_of(const HopperParams& p, const Work& work) {
  Extent extent = {p.seq_k, p.shift};
  if constexpr (kSpec.lengths) {
    const int32_t b = head_of<kSpec>(p, work).b;
    if (p.ragged.cu_k != nullptr) extent.length = rows_between(p, p.ragged.cu_k, b);
    if (p.key_lengths != nullptr) {
      const int64_t length = number_at(p, p.key_lengths, b);
      extent.length = length < 0 ? 0 : length < extent.length ? static_cast<int32_t>(length) : extent.length;
    }
    extent.shift = p.bottom_right ? extent.length - queries_of<kSpec>(p, b) : 0;
  }
  return extent;
}

// The keys that query i may see: [begin, end), or none if end <= begin.
template <HopperSpec kSpec>
__device__ __forceinline__ Keys visible_keys(const HopperParams& p, const Extent& extent, int32_t i) {
  // Without lengths, both are constants of the launch and take no registers.
  const int32_t length = kSpec.lengths ? extent.length : p.seq_k;
  const int32_t shift = kSpec.lengths ? extent.shift : p.shift;
  const int32_t diagonal = i + shift, begin = diagonal - p.left, end = diagonal + p.right + 1;
  return {begin > 0 ? begin : 0, end < length ? end : length};
}

// The KV tiles [begin, end) that a block walks, from the last to the first. There is at least one, because a
// block that sees no key must write its rows as well.
template <HopperSpec kSpec>
__device__ __forceinline__ Keys block_tiles(const HopperParams& p, const Extent& extent, const Work& work) {
  const int32_t queries = queries_of<kSpec>(p, head_of<kSpec>(p, work).b);
  const int32_t first = work.tile * kSpec.tile_q(), past = first + kSpec.tile_q();
  const int32_t last = (past < queries ? past : queries) - 1;
  const int32_t begin = visible_keys<kSpec>(p, extent, first).begin / kSpec.tile_k;
  const int32_t end = (visible_keys<kSpec>(p, extent, last).end + kSpec.tile_k - 1) / kSpec.tile_k;
  if (end <= begin) return {0, 1};
  return {begin, end};
}

// The part of `tiles` in which each of the 64 rows of a warpgroup, from `row` on, sees every key.
template <HopperSpec kSpec>
__device__ __forceinline__ Keys plain_tiles(const HopperParams& p, const Extent& extent, int32_t row,
                                            Keys tiles) {
  const int32_t begin = (visible_keys<kSpec>(p, extent, row + 63).begin + kSpec.tile_k - 1) / kSpec.tile_k;
  // A negative end rounds towards 0: there are no plain tiles either way.
  const int32_t end = visible_keys<kSpec>(p, extent, row).end / kSpec.tile_k;
  const Keys plain = {begin > tiles.begin ? begin : tiles.begin, end < tiles.end ? end : tiles.end};
  if (!p.may_be_plain || plain.end <= plain.begin) return {tiles.end, tiles.end};
  return plain;
}

// The item that this block computes after `item`. If there is a counter, it is the next item that no block has
// taken; otherwise each block takes every gridDim.x-th item.
__device__ __forceinline__ uint32_t next_item(const HopperParams& p, uint32_t item) {
  if (p.taken == nullptr) return item + gridDim.x;
  return gridDim.x + atomic_add(p.taken, 1u);
}

// Heads with the same number of query tiles, which are computed in sections.
struct Heads {
  uint32_t number, q_tiles, section, sections;
};

// The query tile of item `item` of some heads. With longest_first, costs fall in one section and rise in the next,
// so that they do not jump between sections. In the last section they fall.
__device__ __forceinline__ Work work_in_heads(const HopperParams& p, const Heads& all, uint32_t item) {
  if (!p.longest_first) {
    const uint32_t head = item / all.q_tiles;
    return {static_cast<int32_t>(item - head * all.q_tiles), static_cast<int32_t>(head), true};
  }
  const uint32_t items = all.section * all.q_tiles, number = item / items, in_section = item - number * items;
  const uint32_t first = number * all.section, left = all.number - first;
  const uint32_t heads = left < all.section ? left : all.section, step = in_section / heads;
  const uint32_t tile = (all.sections - number) % 2 != 0 ? all.q_tiles - 1 - step : step;
  return {static_cast<int32_t>(tile), static_cast<int32_t>(first + in_section - step * heads), true};
}

// The query tile of an item if packed entries are computed in p.order.
__device__ __forceinline__ Work work_in_order(const HopperParams& p, uint32_t item) {
  const uint32_t* first = p.order.first;
  if (item >= first[p.batch] * p.heads_q) return {0, 0, false};
  // Find the last place whose first tile is at or before the item's. Entries without tiles come last.
  uint32_t low = 0, high = p.batch;
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (first[middle] * p.heads_q <= item ? low : high) = middle;
  }
  const uint32_t section = p.section < p.heads_q ? p.section : p.heads_q;
  const Heads heads = {p.heads_q, first[low + 1] - first[low], section, (p.heads_q + section - 1) / section};
  Work work = work_in_heads(p, heads, item - first[low] * p.heads_q);
  work.head += static_cast<int32_t>(p.order.entry[low] * p.heads_q);
  return work;
}

template <HopperSpec kSpec>
__device__ __forceinline__ Work work_of(const HopperParams& p, uint32_t item) {
  if constexpr (kSpec.lengths) {
    if (p.order.first != nullptr) return work_in_order(p, item);
  }
  if (item >= p.items) return {0, 0, false};
  return work_in_heads(p, {p.heads, p.q_tiles, p.section, p.sections}, item);
}

}  // namespace attn
