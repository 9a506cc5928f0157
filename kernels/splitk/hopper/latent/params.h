// The parameters of the kernel, passed by value, and what a block derives from them: its rows and its part of the
// keys.
#pragma once

#include "kernels/primitives/dependent.h"
#include "kernels/splitk/hopper/params.h"
#include "kernels/splitk/hopper/latent/latent.h"

namespace attn {

struct LatentParams {
  // As on the path of ../hopper/, but `items` counts tiles of rows as well, and `rows` may be more than 64. There is no
  // map of V.
  DecodeParams decode;
  uint32_t row_tiles;  // tiles of rows of a KV head
  bool by_chunks;      // results can be written 16 bytes at a time
};

// An item: one split of one tile of rows of a KV head. Row r of the KV head is query r / packed of head r % packed.
struct LatentPart {
  Part part;
  int32_t first_row;  // of the tile
};

// The item with number `item`. Numbers run over tiles of rows fastest, so that blocks which read the same keys run at
// the same time. Then they run over splits, KV heads and batch entries.
__device__ __forceinline__ LatentPart latent_part(const LatentParams& params, uint32_t item) {
  constexpr int32_t kTileK = LatentSpec::kTileK;
  const DecodeParams& p = params.decode;
  const uint32_t run = item / params.row_tiles, head = run / p.splits, b = head / p.heads_kv;
  LatentPart mine;
  mine.first_row = static_cast<int32_t>(item - run * params.row_tiles) * LatentSpec::kTileQ;
  Part& part = mine.part;
  part.b = static_cast<int32_t>(b);
  part.kv_head = static_cast<int32_t>(head - b * p.heads_kv);
  part.split = static_cast<int32_t>(run - head * p.splits);
  part.length = keys_of(p.forward, b);
  // Ranges move monotonically with the query, so those of the tile's first and last query bound all others.
  const int32_t past = mine.first_row + LatentSpec::kTileQ, last_row = (past < p.rows ? past : p.rows) - 1;
  const int32_t packed = static_cast<int32_t>(p.packed);
  const Keys first = query_keys(p, part.length, mine.first_row / packed);
  const Keys last = query_keys(p, part.length, last_row / packed);
  const int32_t begin = part.split * static_cast<int32_t>(p.split_tiles);
  const int32_t end = begin + static_cast<int32_t>(p.split_tiles);
  const int32_t live_begin = first.begin / kTileK, live_end = (last.end + kTileK - 1) / kTileK;
  part.tiles = {live_begin > begin ? live_begin : begin, live_end < end ? live_end : end};
  if (last.end <= first.begin || part.tiles.end < part.tiles.begin) part.tiles.end = part.tiles.begin;
  part.plain = {(last.begin + kTileK - 1) / kTileK, first.end < 0 || p.sign < 0 ? 0 : first.end / kTileK};
  return mine;
}

// The block's item. Waits for the previous kernel, which may have written the lengths.
__device__ __forceinline__ LatentPart begin_latent(const LatentParams& params) {
  const bool lengths = params.decode.forward.key_lengths != nullptr;
  if (lengths) grid_dependency_wait();
  const LatentPart mine = latent_part(params, blockIdx.x);
  if (!lengths) grid_dependency_wait();
  return mine;
}

}  // namespace attn
