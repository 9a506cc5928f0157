// How an instantiation of the sm_90a path is shaped.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/primitives/platform.h"

namespace attn {

// Of numbers of items, from the one who takes them to those who compute. With two he does not wait: by
// the time he tells the next they have read the last, whose query tile had to make room for another.
inline constexpr int kItemSlots = 2;

struct HopperSpec {
  int dim;               // columns that tiles have room for: 64, 128, 256
  int consumers;         // warpgroups of 64 query rows; one more loads
  int tile_k;            // keys of a tile
  int stages;            // K and V tiles in flight
  int q_stages;          // Q tiles in flight; O is staged where Q was
  int blocks_per_sm;     //
  bool overlap;          // softmax of a tile runs beside P V of the one before
  bool cross_tile;       // the first product of the next query tile runs beside the epilogue
  bool turns;            // warpgroups take turns at issuing products
  int give, take;        // registers a thread that loads keeps, and one that computes gets
  bool scored = false;   // there is a cap or a bias: exponents are made by ScoreTerms
  bool lengths = false;  // batch entries may have key lengths of their own

  __host__ __device__ constexpr int tile_q() const { return 64 * consumers; }
  __host__ __device__ constexpr int threads() const { return 128 * (consumers + 1); }
  __host__ __device__ constexpr int barriers() const { return 2 * q_stages + 4 * stages + 2 * kItemSlots; }
  // Dynamic shared memory of a block: its tiles, then its barriers, then numbers of items.
  __host__ __device__ constexpr size_t shared() const {
    return static_cast<size_t>(q_stages * tile_q() + 2 * stages * tile_k) * dim * 2 + barriers() * 8 +
           kItemSlots * 4 + 32;
  }
};

}  // namespace attn
