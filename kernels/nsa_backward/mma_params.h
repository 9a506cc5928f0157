// The parameters of the variants on tensor cores, and functions that their kernels share: copies of rows to
// shared memory, and P and dA from products in registers.
#pragma once

#include <type_traits>

#include "kernels/fa1_backward/walk_pairs.h"
#include "kernels/nsa/heads.h"
#include "kernels/nsa_backward/gradients.h"

namespace attn::nsa {

inline constexpr int kKeyTile = 64;  // keys of a tile of dK and dV

// The queries that list a block are divided into items. Each block has at least one item, so that a block that
// no query lists gets its zeros. A block of more than kKeyTile keys is several tiles.
//
// The size of an item depends only on the queries of its batch entry, so that a packed entry gives the same
// bits as the entry alone. An entry has at most kParts items per block, or more if kMostRows limits the size of
// an item. Rows are pairs of a query and a query head.
inline constexpr int kParts = 16, kLeastRows = 64, kMostRows = 4096;

struct MmaParams {
  GradientParams of;     // starts: of each block's queries; of.lists is not used
  uint32_t* bits;        // (b, g, c, word): bit i % 32 of word i / 32 says that query i lists block c
  int32_t* first_items;  // (b, g, c), blocks + 1 of them: where the items of block c begin
  int32_t* item_blocks;  // (b, g, item)
  // (head of the launch, item, tile, key, column): unscaled sums, dK's columns and then dV's; only for blocks
  // with several items.
  float* sums;
  int64_t first_head;             // of the launch of dkdv or sum; heads are KV heads of all batch entries
  int64_t words;                  // of bits, of a block
  int64_t places;                 // room for the queries of all blocks of a KV head
  int64_t items;                  // room for the items of a KV head
  int64_t least_part, most_part;  // queries of an item; see part_of()
  int64_t key_tiles;              // of a block
  int64_t keys;                   // of a tile, at most
  int64_t head_tiles;             // blocks of threads of dq for the query heads of a group
  bool async_q, async_k, async_v, async_o, async_dout, async_dq;  // rows are whole 16-byte chunks
};

// The number of queries of an item, if the entry has `queries` queries. A block's last item may have fewer.
__host__ __device__ inline int64_t part_of(const MmaParams& p, int64_t queries) {
  const int64_t part = (queries + kParts - 1) / kParts;
  return part < p.least_part ? p.least_part : part > p.most_part ? p.most_part : part;
}

using backward::clear;
using backward::Products;

// Loads kRows rows by kOfThreads threads, of which this is number `thread`. row_at(r) is the address of row r,
// or nullptr if there is none; all threads of a warp call it together. Missing rows and columns become zeros.
// With `async` the rows have arrived after cp_commit, cp_wait and a barrier.
template <int kRows, int kOfThreads, int D, class Tile, class RowAt>
__device__ __forceinline__ void gather_rows(Tile tile, int thread, RowAt row_at, int dim, int64_t stride,
                                            bool async) {
  constexpr int kChunks = D / 8, kStep = kOfThreads / kChunks;  // rows that the threads load at once
  static_assert(kOfThreads % kChunks == 0 && kRows % kStep == 0);
  const int column = thread % kChunks * 8;
#pragma unroll 4
  for (int r = thread / kChunks; r < kRows; r += kStep) {
    const auto* const from = row_at(r);
    auto* const to = tile.at(r, column);
    if (async) {
      const bool there = from != nullptr && column < dim;
      cp_async16(to, there ? from + column : nullptr, there);
    } else {
      for (int c = 0; c < 8; ++c) {
        const bool there = from != nullptr && column + c < dim;
        to[c] = there ? from[(column + c) * stride] : std::remove_cvref_t<decltype(to[c])>{0};
      }
    }
  }
}

// P of a query and a key that it sees, from q.k, without a soft cap.
__device__ __forceinline__ float weight_of(const SelectedParams& p, float product, float lse) {
  return ex2(fma(product, p.scale, -lse) * kLog2e);
}

// Replaces s = q.k by P, and g = dO.v by dA.
template <bool kCapped>
__device__ __forceinline__ void weigh(const SelectedParams& p, float lse, float delta, float& s, float& g) {
  if constexpr (kCapped) {
    const Pair pair = pair_of(p, s, g, lse, delta);
    s = pair.p, g = pair.a;
  } else {
    s = weight_of(p, s, lse);
    g = s * (g - delta);
  }
}

}  // namespace attn::nsa
