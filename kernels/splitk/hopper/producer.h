// The producer: one thread that keeps the slots of K and V full, across items. It initialises the mbarriers
// itself (hopper.cu), so that its first loads wait for no other thread.
#pragma once

#include "kernels/forward/ring.h"
#include "kernels/primitives/dependent.h"
#include "kernels/splitk/hopper/layout.h"

namespace attn {

// The boxes of a tile have at least this many rows. 8 rows of 128 bytes are a swizzle atom of 1024 bytes, where
// each box must begin.
inline constexpr int kLeastBoxRows = 8;

// The places of the keys of a tile. row and entry are the second and the fourth TMA coordinate of the first key
// of each box. Dense keys have one box.
template <int kTileK>
struct Boxes {
  static constexpr int kMost = kTileK / kLeastBoxRows;
  int32_t row[kMost], entry[kMost];
};

// The boxes of tile t. If keys lie in pages, the block table says where. The table need not have a page past
// the last key, so a box there repeats the last box with keys. Reads of the table do not depend on each other,
// so they overlap.
template <int kTileK>
__device__ __forceinline__ Boxes<kTileK> boxes_of(const DecodeParams& p, const Part& part, int32_t t) {
  Boxes<kTileK> boxes;
  boxes.row[0] = t * kTileK;
  boxes.entry[0] = part.b;
  if (p.box_rows == 0) return boxes;
  const Paged& paged = p.forward.paged;
  const auto page_at = [&](int32_t n) {
    return static_cast<int32_t>(index_at(p.forward, paged.table, part.b * paged.of_entry + n));
  };
  if (p.box_rows == kTileK) {
    const uint32_t key = static_cast<uint32_t>(t * kTileK), page = key / paged.page_size;
    boxes.row[0] = static_cast<int32_t>(key - page * paged.page_size);
    boxes.entry[0] = page_at(static_cast<int32_t>(page));
    return boxes;
  }
  // A box is a page.
  const int32_t count = kTileK / p.box_rows, first = t * count, last = (part.length - 1) / p.box_rows;
#pragma unroll
  for (int n = 0; n < Boxes<kTileK>::kMost; ++n) {
    if (n >= count) break;
    boxes.row[n] = 0;
    boxes.entry[n] = page_at(first + n < last ? first + n : last);
  }
  return boxes;
}

// Loads the panels of a tile as soon as its slot is empty. Rows past a dense tensor become zeros. `phase`: the
// parity of the slot's round.
template <class Tile>
__device__ __forceinline__ void load_tile_of_keys(Tile tile, const TensorMap& map, Mbarrier* full,
                                                  Mbarrier* empty, uint32_t phase, int32_t kv_head,
                                                  const Boxes<Tile::kRows>& boxes, int32_t box_rows) {
  mbarrier_wait(empty, phase ^ 1);
  mbarrier_expect(full, Tile::kBytes);
#pragma unroll
  for (int i = 0; i < boxes.kMost; ++i) {
    if (i > 0 && (box_rows == 0 || i * box_rows >= Tile::kRows)) break;
#pragma unroll
    for (int n = 0; n < Tile::D / kBoxColumns; ++n) {
      tma_load_once(tile.panel(n) + i * box_rows * kBoxColumns, map, full,
                    {{n * kBoxColumns, boxes.row[i], kv_head, boxes.entry[i]}});
    }
  }
}

template <class T, DecodeSpec kSpec>
__device__ __forceinline__ void load_keys(const DecodeParams& p, const DecodePipeline<T, kSpec>& pipe) {
  grid_dependency_wait();
  Ring<kSpec.stages> at;
  for (uint32_t item = blockIdx.x; item < p.items; item += gridDim.x) {
    const Part part = part_of<kSpec.tile_k>(p, item);
    if (part.tiles.begin >= part.tiles.end) continue;
    Boxes<kSpec.tile_k> boxes = boxes_of<kSpec.tile_k>(p, part, part.tiles.begin);
    for (int32_t t = part.tiles.begin; t < part.tiles.end; ++t) {
      const int32_t ahead = t + 1 < part.tiles.end ? t + 1 : t;
      const Boxes<kSpec.tile_k> next = boxes_of<kSpec.tile_k>(p, part, ahead);  // read while this tile waits
      load_tile_of_keys(pipe.k(at.slot), p.k, pipe.k_full + at.slot, pipe.k_empty + at.slot, at.phase,
                        part.kv_head, boxes, p.box_rows);
      load_tile_of_keys(pipe.v(at.slot), p.v, pipe.v_full + at.slot, pipe.v_empty + at.slot, at.phase,
                        part.kv_head, boxes, p.box_rows);
      boxes = next;
      at = at.next();
    }
  }
}

}  // namespace attn
