// What a shape of the fast way of the backward pass is made of.
#pragma once

#include <cstddef>

#include "kernels/primitives/platform.h"

namespace attn::backward {

inline constexpr int kGroup = 32;  // rows that a warp computes P and dA for: fragments serve all of them

// dK and dV: a block has a tile of keys and walks over tiles of queries.
struct KeySpec {
  static constexpr int kQueries = 64;  // of a tile

  int dim;            // columns that tiles have room for: 64, 128
  int warps;          //
  int share;          // warps that have a group of 32 keys together
  int stages;         // tiles of queries in shared memory: 2, or 1 and copies are waited for at once
  int blocks_per_sm;  // that registers must suffice for

  __host__ __device__ constexpr int keys() const { return kGroup * warps / share; }
  __host__ __device__ constexpr int columns() const { return dim / share; }  // of a warp's dK and dV
  __host__ __device__ constexpr int threads() const { return 32 * warps; }
  // Queries that a warp computes P and dA for, in groups.
  __host__ __device__ constexpr int groups() const { return kQueries / kGroup / share; }
};

// dQ: a block has a tile of queries and walks over tiles of keys.
struct QuerySpec {
  static constexpr int kQueries = 128;  // of a block: 32 a warp

  int dim;
  int keys;  // of a tile
  int blocks_per_sm;

  __host__ __device__ static constexpr int threads() { return kQueries / kGroup * 32; }
};

}  // namespace attn::backward
