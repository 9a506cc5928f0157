// The parameters of the kernels of nsa_backward from a call, and how its variants use the workspace.
#pragma once

#include <algorithm>

#include "kernels/forward/checks.h"
#include "kernels/nsa/make_params.h"
#include "kernels/nsa_backward/key_walk.h"
#include "kernels/nsa_backward/prepare.h"
#include "kernels/nsa_backward/query_walk.h"

namespace attn::nsa {

// Numbers of rows, blocks and indices; a number is negative if it is too large for the kernels. The workspace
// has arrays of `rows`, `entries`, `entries` and `borders` numbers of 4 bytes.
struct Counts {
  int64_t rows, keys;        // queries of all heads, keys of all KV heads
  int64_t lists;             // queries of all KV heads
  int64_t heads;             // KV heads of all batch entries
  int64_t places;            // indices of all queries of a KV head
  int64_t blocks;            // blocks of keys of a KV head
  int64_t entries, borders;  // indices of all lists; blocks of keys of all KV heads, plus one for each head

  explicit Counts(const attn_problem& p)
      : rows(product_within(p.batch, p.heads_q, p.seq_q, kMaxBlocks * kWarps)),
        keys(product_within(p.batch, p.heads_kv, p.seq_k, kMaxBlocks * kWarps)),
        lists(product_within(p.batch, p.heads_kv, p.seq_q, kMaxBlocks)),
        heads(product_within(p.batch, p.heads_kv, 1, kMaxBlocks)),
        places(product_within(p.seq_q, p.select, 1, kMaxBlocks)),
        blocks(product_within(blocks_of_keys(p), 1, 1, kMaxBlocks)),
        entries(product_within(lists < 0 ? kMaxBlocks : lists, p.select, 1, kMostNumbers)),
        borders(product_within(heads < 0 ? kMaxBlocks : heads, blocks_of_keys(p) + 1, 1, kMostNumbers)) {}
  bool fit() const { return std::min({rows, keys, lists, heads, places, blocks, entries, borders}) >= 0; }
  uint64_t bytes() const { return sizeof(int32_t) * static_cast<uint64_t>(rows + 2 * entries + borders); }

  static constexpr int64_t kMostNumbers = int64_t{1} << 40;
};

inline GradientParams make_gradient_params(const Call& call) {
  const attn_problem& a = call.problem;
  const attn_tensors t = strided(a, call.tensors);
  const Counts counts(a);
  GradientParams p = {};
  p.of = make_params(call);
  if (counts.rows == 0) p.of.seq_q = 0;  // without heads there are no lists either
  p.dout = t.dout, p.dq = t.dq, p.dk = t.dk, p.dv = t.dv;
  if ((a.features & ATTN_FEATURE_DLSE) != 0) p.dlse = t.dlse;
  p.rows = counts.rows, p.keys = counts.keys, p.blocks = counts.blocks, p.longest = p.of.seq_q;
  p.delta = static_cast<float*>(t.workspace);
  p.lists = static_cast<int32_t*>(t.workspace) + counts.rows;
  p.queries = p.lists + counts.entries;
  p.starts = p.queries + counts.entries;
  return p;
}

inline constexpr int64_t kMmaColumns = 128;  // tensor cores take no more

// Numbers of the variants on tensor cores; a number is negative if it is too large for the kernels. The
// workspace has arrays of `rows`, `bits`, `borders`, `borders`, `heads * listed`, `heads * items` and `sums`
// numbers of 4 bytes.
//
// The sums of all items may need tens of gigabytes. So dkdv and sum run for a few KV heads at a time, and the
// heads of the next launch use the same room. The results do not depend on it.
struct MmaCounts : Counts {
  int64_t words, bits;                // words of bits: for one block of keys, and for all blocks
  int64_t listed;                     // queries of the inverted lists of a KV head, at most
  int64_t least_part, most_part;      // queries of an item
  int64_t parts;                      // items of a block, at most
  int64_t items;                      // of a KV head, at most
  int64_t key_tiles, tile;            // tiles of a block of keys; keys of a tile
  int64_t head_tiles;                 // blocks of threads of dq for the query heads of a group
  int64_t dq_blocks, prepare_blocks;  // blocks of threads
  int64_t row_blocks;                 // of prepare: those that have queries; the others only set bits to 0
  int64_t dkdv_blocks, sum_blocks;    // for one KV head
  int64_t marked_blocks;              // blocks of keys of all KV heads; count and fill have a warp for each
  int64_t heads_at_once;              // KV heads of a launch of dkdv and of sum
  int64_t sums;                       // of the items of these heads

  explicit MmaCounts(const attn_problem& p) : Counts(p) {
    const int64_t group = std::max<int64_t>(p.heads_q / std::max<int64_t>(p.heads_kv, 1), 1);
    const int64_t queries = rows == 0 ? 0 : p.seq_q, all_heads = std::max<int64_t>(heads, 0),
                  all_blocks = std::max<int64_t>(blocks, 0);
    words = ceil_div(queries, 32);
    bits = product_within(all_heads, all_blocks, words, kMostRoom);
    marked_blocks = product_within(all_heads, all_blocks, 1, kMaxBlocks);
    listed = product_within(queries, std::min(p.select, all_blocks), 1, kMaxBlocks);
    least_part = ceil_div(kLeastRows, group), most_part = ceil_div(kMostRows, group);
    parts = std::max<int64_t>(
        {std::min<int64_t>(ceil_div(queries, least_part), kParts), ceil_div(queries, most_part), 1});
    const int64_t of_lists = product_within(parts, std::min(p.select, all_blocks), 1, kMaxBlocks);
    items = of_lists < 0 ? -1 : product_within(of_lists + all_blocks, 1, 1, kMaxBlocks);
    key_tiles = ceil_div(span_of(p), kKeyTile);
    tile = std::min<int64_t>(span_of(p), kKeyTile);
    head_tiles = ceil_div(group, 16);
    row_blocks = product_within(p.batch, p.heads_q, ceil_div(queries, kPrepared), kMaxBlocks);
    prepare_blocks =
        row_blocks < 0 ? -1 : std::max(row_blocks, ceil_div(std::max<int64_t>(bits, 0), kPreparedBits));
    dq_blocks = rows == 0 ? 0 : lists < 0 ? -1 : product_within(lists, head_tiles, 1, kMaxBlocks);
    dkdv_blocks = items < 0 ? -1 : product_within(items, key_tiles, 1, kMaxBlocks);
    sum_blocks = product_within(all_blocks, key_tiles, ceil_div(tile, kSumKeys), kMaxBlocks);
    const int64_t of_head =
        dkdv_blocks < 0 ? -1 : product_within(dkdv_blocks, tile, p.dim_qk + p.dim_v, kMostRoom);
    const int64_t most_heads = kSumsAtOnce / std::max<int64_t>({of_head, dkdv_blocks, sum_blocks, 1});
    heads_at_once = std::max<int64_t>(std::min(most_heads, all_heads), 1);
    sums = of_head < 0 ? -1 : std::min(heads_at_once, all_heads) * of_head;
  }
  // The kernels number keys and the pairs of an item in 32 bits, and look up pairs a few steps after the last
  // one.
  bool fit(const attn_problem& p) const {
    return Counts::fit() && p.seq_k <= kMaxBlocks && p.heads_q <= kMostHeads &&
           std::min({bits, marked_blocks, listed, items, prepare_blocks, dq_blocks, dkdv_blocks, sum_blocks,
                     sums}) >= 0 &&
           bits + sums <= kMostRoom;
  }
  uint64_t bytes() const {
    return sizeof(int32_t) * static_cast<uint64_t>(rows + bits + 2 * borders + heads * (listed + items) + sums);
  }

  static constexpr int64_t kMostHeads = int64_t{1} << 30;
  static constexpr int64_t kMostRoom = int64_t{1} << 30;  // numbers: bits and sums have at most 4 GiB
  // The sums of a launch have 256 MiB if one head needs no more. That is 4096 blocks of threads with 64 keys of
  // 128 columns. On the executor the room is small, so that checks meet several launches.
  static constexpr int64_t kSumsAtOnce = int64_t{1} << (kBackend == ATTN_CUDA ? 26 : 13);
};

inline MmaParams make_mma_params(const Call& call, const MmaCounts& counts) {
  const attn_problem& a = call.problem;
  MmaParams p = {};
  p.of = make_gradient_params(call);
  p.bits = reinterpret_cast<uint32_t*>(p.of.delta + counts.rows);
  p.of.lists = nullptr;
  p.of.starts = reinterpret_cast<int32_t*>(p.bits + counts.bits);
  p.first_items = p.of.starts + counts.borders;
  p.of.queries = p.first_items + counts.borders;
  p.item_blocks = p.of.queries + counts.heads * counts.listed;
  p.sums = reinterpret_cast<float*>(p.item_blocks + counts.heads * counts.items);
  p.words = counts.words, p.places = counts.listed, p.items = counts.items;
  p.least_part = counts.least_part, p.most_part = counts.most_part;
  p.key_tiles = counts.key_tiles, p.keys = counts.tile, p.head_tiles = counts.head_tiles;
  const Rows q = rows_of_queries(a), k = rows_of_keys(a);
  const int64_t of_q[3] = {q.entries, a.heads_q, q.count}, of_k[3] = {k.entries, a.heads_kv, k.count};
  const SelectedParams& of = p.of.of;
  p.async_q = copies_by_16_bytes(of.q, of_q, of.dim_qk);
  p.async_k = copies_by_16_bytes(of.k, of_k, of.dim_qk);
  p.async_v = copies_by_16_bytes(of.v, of_k, of.dim_v);
  p.async_o = copies_by_16_bytes(of.o, of_q, of.dim_v);
  p.async_dout = copies_by_16_bytes(p.of.dout, of_q, of.dim_v);
  p.async_dq = copies_by_16_bytes(p.of.dq, of_q, of.dim_qk);
  return p;
}

}  // namespace attn::nsa
