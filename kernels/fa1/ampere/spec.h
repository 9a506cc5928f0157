// The shape of an instantiation of the mma path.
#pragma once

#include <cstddef>

#include "kernels/primitives/platform.h"

namespace attn {

struct AmpereSpec {
  int dim;              // columns that tiles have room for: 64, 128
  int warps;            // of a block
  int groups;           // groups of 16 query rows per warp; each fragment of K and V is used for all of them
  int tile_k;           // keys of a tile
  bool q_registers;     // Q stays in registers; else it is read from shared memory for each tile of keys
  int blocks_per_sm;    // blocks of a multiprocessor that registers must suffice for
  bool scored = false;  // for ScoreMode::kGeneral: ScoreTerms makes the exponents

  __host__ __device__ constexpr int warp_rows() const { return 16 * groups; }
  __host__ __device__ constexpr int tile_q() const { return warp_rows() * warps; }
  __host__ __device__ constexpr int threads() const { return 32 * warps; }
  // Dynamic shared memory of a block, in bytes: a tile of Q, two of K, two of V, and if scored two tiles of a
  // 16-bit bias or one in fp32.
  __host__ __device__ constexpr size_t shared() const {
    const size_t tiles = static_cast<size_t>(tile_q() + 4 * tile_k) * dim * 2;
    return tiles + (scored ? static_cast<size_t>(tile_q() * tile_k) * 4 : 0);
  }
};

}  // namespace attn
