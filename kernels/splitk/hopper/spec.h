// How an instantiation of the decode path is shaped.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/primitives/platform.h"

namespace attn {

struct DecodeSpec {
  int dim;              // columns that tiles have room for: 64, 128, 256
  int tile_k;           // keys of a tile
  int stages;           // K and V tiles in flight
  int blocks_per_sm;    //
  bool scored = false;  // there is a cap or a bias: exponents are made by ScoreTerms

  // One warpgroup computes, a warp more loads.
  static constexpr int kTileQ = 64, kThreads = 160;

  __host__ __device__ constexpr int barriers() const { return 4 * stages; }
  // Dynamic shared memory of a block: its tiles, then its barriers.
  __host__ __device__ constexpr size_t shared() const {
    return static_cast<size_t>(kTileQ + 2 * stages * tile_k) * dim * 2 + barriers() * 8 + 16;
  }
};

}  // namespace attn
