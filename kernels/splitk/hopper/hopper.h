// The interface of the decode path of Split-K on sm_90a, for plan() and run().
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/forward/params.h"
#include "kernels/forward/split_params.h"

namespace attn {

// The shape of an instantiation. shapes.h lists those that are compiled.
struct DecodeSpec {
  int dim;              // columns that tiles have room for: 64, 128, 256
  int tile_k;           // keys of a tile
  int stages;           // K and V tiles in flight
  int blocks_per_sm;    // blocks that a multiprocessor holds
  bool scored = false;  // for ScoreMode::kGeneral: ScoreTerms makes the exponents

  // One warpgroup computes, one more warp loads.
  static constexpr int kTileQ = 64, kThreads = 160;

  __host__ __device__ constexpr int barriers() const { return 4 * stages; }
  // Dynamic shared memory of a block, in bytes: its tiles, then its barriers.
  __host__ __device__ constexpr size_t shared() const {
    return static_cast<size_t>(kTileQ + 2 * stages * tile_k) * dim * 2 + barriers() * 8 + 16;
  }
};

// The instantiation for a checked problem: an index for the functions below, or -1 if the path cannot take the
// problem. The path takes problems without a mask tensor (causal masks, windows, key lengths, a bias and a
// softcap are fine), in which all queries of all heads of a KV head fit a tile of 64 rows, with tensors that
// 16-byte copies and the copy engine can read, with at least one query and one key, and without a requested
// variant. README.md has the other limits.
int decode_choice(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env);

const DecodeSpec& decode_spec(int choice);

// The number of splits if the caller leaves the choice to the kernel.
int64_t decode_splits(int choice, const attn_problem& problem, const attn_env& env);

// Computes all splits of a problem. If `direct` (there is one split), the result goes to O and LSE, else to the
// workspace.
attn_status decode_partial(int choice, const attn_problem& problem, const ForwardParams& params,
                           const SplitParams& split, bool direct, const attn_env* env);

// Merges the splits of the workspace into O and LSE. `close`: launch the merge as a dependent of
// decode_partial()'s kernel.
attn_status decode_reduce(int choice, const attn_problem& problem, const ForwardParams& params,
                          const SplitParams& split, bool close, const attn_env* env);

}  // namespace attn
