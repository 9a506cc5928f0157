// The numbers that make up a shape of the fast way of the backward pass.
#pragma once

#include <cstddef>

#include "kernels/primitives/platform.h"

namespace attn::backward {

inline constexpr int kGroup = 32;  // queries, or keys, for which a warp computes P and dA at a time

// dK and dV: a block has a tile of keys and walks over tiles of queries.
struct KeySpec {
  static constexpr int kQueries = 64;  // of a tile

  int dim;            // columns that tiles have room for: 64, 128
  int warps;          // of a block
  int share;          // warps that share a group of 32 keys: 1, 2
  int stages;         // tiles of queries in shared memory: 2; with 1 a step waits for its own copies
  int blocks_per_sm;  // blocks of a multiprocessor that registers must suffice for

  __host__ __device__ constexpr int keys() const { return kGroup * warps / share; }
  __host__ __device__ constexpr int columns() const { return dim / share; }  // of a warp's dK and dV
  __host__ __device__ constexpr int threads() const { return 32 * warps; }
  // The number of groups of 32 queries of a tile for which a warp computes P and dA.
  __host__ __device__ constexpr int groups() const { return kQueries / kGroup / share; }
};

// dQ: a block has a tile of queries and walks over tiles of keys.
struct QuerySpec {
  static constexpr int kQueries = 128;  // of a block: 32 per warp

  int dim;
  int keys;  // of a tile
  int blocks_per_sm;

  __host__ __device__ static constexpr int threads() { return kQueries / kGroup * 32; }
};

}  // namespace attn::backward
