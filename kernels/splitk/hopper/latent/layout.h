// A block's shared memory.
//
//   Q               64 rows x 576
//   K               2 slots of 64 keys x 576, of which the first 512 columns are V
//   probabilities   of one tile, as A fragments: 4 words for each product of 16 keys and thread
//   factors         one for each row
//
// A slot is loaded in two parts with a barrier each: columns 0..255, and columns 256..575. Each of the two warpgroups
// that compute O loads and reads one part. The warpgroup that computes the scores reads both.
#pragma once

#include "kernels/primitives/barrier.h"
#include "kernels/primitives/chunk.h"
#include "kernels/primitives/shared.h"
#include "kernels/primitives/warpgroup.h"
#include "kernels/primitives/wgmma.h"
#include "kernels/splitk/hopper/latent/params.h"

namespace attn {

template <class T>
struct LatentPipeline {
  static constexpr int kTileQ = LatentSpec::kTileQ, kTileK = LatentSpec::kTileK;
  using Q = PanelTile<T, kTileQ, LatentSpec::kDimQk>;
  using Values = PanelTile<T, kTileK, LatentSpec::kHalf>;
  using Rest = PanelTile<T, kTileK, LatentSpec::kDimQk - LatentSpec::kHalf>;

  Q q;
  T* slots;
  Chunk* probabilities;
  float* factors;
  Mbarrier* full;  // [slot][part]

  // Columns 0..255 of a slot, and columns 256..575.
  __device__ __forceinline__ Values first(int slot) const { return {slots + slot * (kTileK * LatentSpec::kDimQk)}; }
  __device__ __forceinline__ Rest rest(int slot) const { return {first(slot).panel(LatentSpec::kHalf / kBoxColumns)}; }
  // The columns of V in part `half` of a slot.
  __device__ __forceinline__ Values values(int slot, int half) const {
    return {first(slot).panel(half * (LatentSpec::kHalf / kBoxColumns))};
  }
};

template <class T>
__device__ __forceinline__ LatentPipeline<T> latent_pipeline() {
  using Pipe = LatentPipeline<T>;
  SharedArena arena;
  Pipe pipe;
  pipe.q = {arena.template carve<T>(Pipe::kTileQ * LatentSpec::kDimQk, 1024)};
  pipe.slots = arena.template carve<T>(LatentSpec::kStages * Pipe::kTileK * LatentSpec::kDimQk, 1024);
  pipe.probabilities = arena.template carve<Chunk>(Pipe::kTileQ * Pipe::kTileK / 8);
  pipe.factors = arena.template carve<float>(Pipe::kTileQ);
  pipe.full = arena.template carve<Mbarrier>(LatentSpec::kBarriers);
  return pipe;
}

// Named barriers. At kLatentReady all threads wait until the mbarriers are made. kLatentOwn + n is for the threads of
// warpgroup n. The other two order messages (compute.h).
inline constexpr int kLatentReady = 1, kLatentOwn = 2, kLatentSent = 5, kLatentTaken = 6;

}  // namespace attn
