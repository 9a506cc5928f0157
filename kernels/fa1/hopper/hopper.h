// The sm_90a path of FA-1, as plan() and run() see it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/forward/params.h"

namespace attn {

// Slots for item numbers, which the loading thread passes to the consumers. With two slots the loader does not
// wait: when it passes a number, the consumers have already read the previous one.
inline constexpr int kItemSlots = 2;

// The shape of an instantiation. shapes.h lists those that are compiled.
struct HopperSpec {
  int dim;               // columns that tiles have room for: 64, 128, 256
  int consumers;         // warpgroups of 64 query rows; one more loads
  int tile_k;            // keys of a tile
  int stages;            // K and V tiles in flight
  int q_stages;          // Q tiles in flight; with 1, O is staged in slots of K and V (README.md)
  int blocks_per_sm;     // blocks that a multiprocessor holds
  bool overlap;          // the softmax of a tile runs while P V of the previous tile does
  bool cross_tile;       // the first product of the next query tile runs during the epilogue
  bool turns;            // warpgroups take turns at issuing products
  int give, take;        // registers of a thread that loads, and of one that computes
  bool scored = false;   // for ScoreMode::kGeneral: ScoreTerms makes the exponents
  bool lengths = false;  // batch entries may have key lengths of their own

  __host__ __device__ constexpr int tile_q() const { return 64 * consumers; }
  __host__ __device__ constexpr int threads() const { return 128 * (consumers + 1); }
  __host__ __device__ constexpr int barriers() const { return 2 * q_stages + 4 * stages + 2 * kItemSlots; }
  // Words of an item in its slot: its number, or its tile and its head.
  __host__ __device__ constexpr int item_words() const { return lengths ? 2 : 1; }
  // Dynamic shared memory of a block, in bytes: its tiles, then its barriers, then item numbers.
  __host__ __device__ constexpr size_t shared() const {
    return static_cast<size_t>(q_stages * tile_q() + 2 * stages * tile_k) * dim * 2 + barriers() * 8 +
           item_words() * kItemSlots * 4 + 32;
  }
};

// The instantiation for a checked problem: an index for the functions below, or -1 if the path cannot take the
// problem. The path takes problems without a mask tensor (causal masks, windows, key lengths, a bias and a
// softcap are fine), with tensors that the copy engine can read, with at least one query and one key, and
// without a requested variant. README.md has the other limits.
int hopper_choice(const attn_problem& problem, const attn_env& env, const ForwardParams& params);

const HopperSpec& hopper_spec(int choice);

// Bytes of workspace: a counter, if blocks take items as they become free.
uint64_t hopper_workspace(int choice, const attn_problem& problem, const attn_env& env);

attn_status hopper_run(int choice, const attn_problem& problem, const attn_tensors& tensors,
                       const ForwardParams& params, const attn_env* env);

}  // namespace attn
