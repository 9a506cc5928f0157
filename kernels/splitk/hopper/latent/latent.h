// The interface of the path for a latent V on sm_90a, for plan() and run().
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/forward/params.h"
#include "kernels/forward/split_params.h"

namespace attn {

// The one shape of the path. Q and K have up to kDimQk columns, and V is the first columns of K, up to kDimV.
struct LatentSpec {
  static constexpr int kDimQk = 576, kDimV = 512;
  static constexpr int kTileQ = 64, kTileK = 64, kStages = 2;
  // Three warpgroups: one computes the scores, and two compute kHalf columns of O each.
  static constexpr int kHalf = kDimV / 2, kThreads = 3 * 128;
  static constexpr int kScoreRegisters = 104, kOutputRegisters = 200;
  // Each slot is loaded in four parts, of kPart columns each; the last part also has the columns past kDimV.
  static constexpr int kPart = kHalf / 2, kParts = 4, kBarriers = kParts * kStages;

  // Dynamic shared memory of a block, in bytes: a tile of Q, the slots of K, the probabilities of a tile in 16 bits,
  // a factor for each row, and the barriers.
  static constexpr size_t shared() {
    return static_cast<size_t>(kTileQ + kStages * kTileK) * kDimQk * 2 + kTileQ * kTileK * 2 + kTileQ * 4 +
           kBarriers * 8;
  }
};

// True if the path takes a checked problem. README.md has its limits.
bool latent_takes(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env);

// The number of splits if the caller leaves the choice to the kernel.
int64_t latent_splits(const attn_problem& problem, const attn_env& env);

// Computes all splits of a problem. If `direct` (there is one split), the result goes to O and LSE, else to the
// workspace.
attn_status latent_partial(const attn_problem& problem, const ForwardParams& params, const SplitParams& split,
                           bool direct, const attn_env* env);

// Merges the splits of the workspace into O and LSE. `close`: launch the merge as a dependent of latent_partial()'s
// kernel.
attn_status latent_reduce(const attn_problem& problem, const ForwardParams& params, const SplitParams& split,
                          bool close, const attn_env* env);

}  // namespace attn
