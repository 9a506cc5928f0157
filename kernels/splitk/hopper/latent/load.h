// The loads of a slot's parts. Each warpgroup that computes O loads its own two parts: after the products that read a part,
// one of its threads loads the next tile's part into the slot. No other warpgroup needs the old tile then, because its
// scores came before these products.
#pragma once

#include "kernels/splitk/hopper/latent/layout.h"
#include "kernels/splitk/hopper/producer.h"

namespace attn {

// True if a tile's keys are one box: they are not, if they lie in several pages.
__device__ __forceinline__ bool one_latent_box(const DecodeParams& p) {
  return p.box_rows == 0 || p.box_rows == LatentSpec::kTileK;
}

// Loads the panels of `tile`, whose first column in K is `column`, with the keys of `boxes`. Rows and columns past a
// dense tensor become zeros.
template <class Tile>
__device__ __forceinline__ void load_latent(Tile tile, int32_t column, const DecodeParams& p, const Part& part,
                                            const Boxes<Tile::kRows>& boxes, Mbarrier* full) {
  mbarrier_expect(full, Tile::kBytes);
#pragma unroll
  for (int i = 0; i < boxes.kMost; ++i) {
    if (i > 0 && (p.box_rows == 0 || i * p.box_rows >= Tile::kRows)) break;
#pragma unroll
    for (int n = 0; n < Tile::D / kBoxColumns; ++n) {
      tma_load(tile.panel(n) + i * p.box_rows * kBoxColumns, p.k, full,
               {{column + n * kBoxColumns, boxes.row[i], part.kv_head, boxes.entry[i]}});
    }
  }
}

// Loads part `number` of a slot with the keys of tile t.
template <class T>
__device__ __forceinline__ void load_latent_part(const DecodeParams& p, const LatentPipeline<T>& pipe, const Part& part,
                                                 int32_t t, int slot, int number) {
  const Boxes<LatentSpec::kTileK> boxes = boxes_of<LatentSpec::kTileK>(p, part, t);
  Mbarrier* full = pipe.loaded(slot, number);
  if (number < LatentSpec::kParts - 1) {
    load_latent(pipe.quarter(slot, number), number * LatentSpec::kPart, p, part, boxes, full);
  } else {
    load_latent(pipe.last(slot), number * LatentSpec::kPart, p, part, boxes, full);
  }
}

// The place of a tile's first box: its row and its entry, as in Boxes.
struct LatentBox {
  int32_t row, entry;
};

// The box of tile t if its keys are one box. Products may be under way when it is loaded, so it is looked up before.
__device__ __forceinline__ LatentBox latent_box(const DecodeParams& p, const Part& part, int32_t t) {
  const int32_t key = t * LatentSpec::kTileK;
  if (p.box_rows != LatentSpec::kTileK) return {key, part.b};
  const Paged& paged = p.forward.paged;
  const int32_t page = static_cast<int32_t>(static_cast<uint32_t>(key) / paged.page_size);
  return {key - page * static_cast<int32_t>(paged.page_size),
          static_cast<int32_t>(index_at(p.forward, paged.table, part.b * paged.of_entry + page))};
}

// Loads the kPart columns of part `number`, which is not the last one, if `whether`. There is no branch.
template <class T>
__device__ __forceinline__ void load_latent_box(bool whether, const DecodeParams& p, const LatentPipeline<T>& pipe,
                                                int32_t kv_head, LatentBox box, int slot, int number) {
  const auto tile = pipe.quarter(slot, number);
  Mbarrier* full = pipe.loaded(slot, number);
  mbarrier_expect_if(whether, full, tile.kBytes);
#pragma unroll
  for (int n = 0; n < LatentSpec::kPart / kBoxColumns; ++n) {
    tma_load_if(whether, tile.panel(n), p.k, full,
                {{number * LatentSpec::kPart + n * kBoxColumns, box.row, kv_head, box.entry}});
  }
}

}  // namespace attn
