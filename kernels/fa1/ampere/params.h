// The parameters of the mma kernel, passed by value, and what a block derives from them: its rows, the keys
// that they see, and the tiles that it walks over.
#pragma once

#include "kernels/fa1/ampere/shapes.h"
#include "kernels/forward/params.h"
#include "kernels/forward/score_terms.h"
#include "kernels/forward/warpgroup_softmax.h"

namespace attn {

// Sequences are shorter than this, and an unbounded side of a window has twice this length, so that sums of a
// few positions fit 32 bits.
inline constexpr int32_t kAmpereSequence = 1 << 28;

struct AmpereParams {
  Strided q, k, v, o, lse;     // strides in elements; lse.data is nullptr if the caller wants none
  Sinks sinks;                 // one logit for each query head
  Slopes slopes;               // of scored shapes
  const int64_t* key_lengths;  // nullptr if all are seq_k
  int32_t seq_q, seq_k;        // below kAmpereSequence
  int32_t dim_qk, dim_v;       // multiples of 8
  int32_t left, right;         // sides of the window; a causal mask has right = 0
  bool bottom_right;           // where the diagonal lies
  bool first_hidden;           // keys before the window may be hidden
  bool last_hidden;            // keys beyond the diagonal or the window may be hidden
  bool may_be_plain;           // a tile that all rows see whole needs no mask
  float sign, sigma;           // score = product * sign; exponent of two = score * sigma
  uint32_t heads_q, group;     // query heads; query heads per KV head
  uint32_t heads, q_tiles;     // query heads of all batch entries; query tiles of a head
  uint32_t entries;            // batch entries, if they share a bias; else 0
  uint32_t section;            // heads that are worked on side by side, so that K and V stay in the L2
  ScoreTerms terms;            // for scored shapes, which have sign and sigma 1
  bool rough;                  // scores need only a bias in chunks: unmasked tiles run add_rough()
  attn_probe probe;            // values is null if no probe is requested
};

// One query tile of one head, as a block sees it.
struct AmpereBlock {
  int32_t b, h;
  int32_t first_row;
  int32_t length;  // keys of this batch entry
  int32_t shift;   // diag(i) = i + shift
};

// The query tile of this block. Blocks start in the order of their numbers. In a section of heads the last
// query tiles come first, because they have the most work under a causal mask.
template <AmpereSpec kSpec>
__device__ __forceinline__ AmpereBlock block_of(const AmpereParams& p) {
  const uint32_t section_blocks = p.section * p.q_tiles, number = blockIdx.x / section_blocks;
  const uint32_t in_section = blockIdx.x - number * section_blocks, first = number * p.section;
  const uint32_t left = p.heads - first, heads = left < p.section ? left : p.section;
  const uint32_t step = in_section / heads, head = first + in_section - step * heads;
  // Heads are numbered entry by entry. If batch entries share a bias, they are numbered head by head instead,
  // so that all entries read a head's bias while it is in the L2.
  const bool entries_first = kSpec.scored && p.entries > 0;
  const uint32_t run = entries_first ? p.entries : p.heads_q;
  const int32_t outer = static_cast<int32_t>(head / run), inner = static_cast<int32_t>(head - outer * run);
  AmpereBlock block;
  block.b = entries_first ? inner : outer;
  block.h = entries_first ? outer : inner;
  block.first_row = static_cast<int32_t>(p.q_tiles - 1 - step) * kSpec.tile_q();
  block.length = p.seq_k;
  if (p.key_lengths != nullptr) {
    const int64_t length = p.key_lengths[block.b];
    block.length = length < 0 ? 0 : length < p.seq_k ? static_cast<int32_t>(length) : p.seq_k;
  }
  block.shift = p.bottom_right ? block.length - p.seq_q : 0;
  return block;
}

// The keys that query i may see: [begin, end), or none if end <= begin.
__device__ __forceinline__ Keys visible_keys(const AmpereParams& p, const AmpereBlock& block, int32_t i) {
  const int32_t diagonal = i + block.shift, begin = diagonal - p.left, end = diagonal + p.right + 1;
  return {begin > 0 ? begin : 0, end < block.length ? end : block.length};
}

// The KV tiles [begin, end) from the first to the last key that some row of the block may see.
template <AmpereSpec kSpec>
__device__ __forceinline__ Keys live_tiles(const AmpereParams& p, const AmpereBlock& block) {
  const int32_t past = block.first_row + kSpec.tile_q(), last = (past < p.seq_q ? past : p.seq_q) - 1;
  const int32_t begin = visible_keys(p, block, block.first_row).begin / kSpec.tile_k;
  const int32_t end = (visible_keys(p, block, last).end + kSpec.tile_k - 1) / kSpec.tile_k;
  return {begin, end > begin ? end : begin};
}

// The part of `tiles` in which every row of the block sees every key.
template <AmpereSpec kSpec>
__device__ __forceinline__ Keys plain_tiles(const AmpereParams& p, const AmpereBlock& block, Keys tiles) {
  const int32_t last = block.first_row + kSpec.tile_q() - 1;
  const int32_t begin = (visible_keys(p, block, last).begin + kSpec.tile_k - 1) / kSpec.tile_k;
  const int32_t end = visible_keys(p, block, block.first_row).end / kSpec.tile_k;  // if negative: none
  const Keys plain = {begin > tiles.begin ? begin : tiles.begin, end < tiles.end ? end : tiles.end};
  if (!p.may_be_plain || plain.end <= plain.begin) return {tiles.end, tiles.end};
  return plain;
}

}  // namespace attn
