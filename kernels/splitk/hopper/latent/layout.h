// A block's shared memory.
//
//   Q               64 rows x 576
//   K               2 slots of 64 keys x 576, of which the first 512 columns are V
//   probabilities   of one tile, as A fragments: 4 words for each product of 16 keys and thread
//   factors         one for each row
//
// A slot is loaded in four parts with a barrier each: columns 0..127, 128..255, 256..383, and 384..575. Each of the two
// warpgroups that compute O loads and reads two parts. The warpgroup that computes the scores reads all.
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
  using Quarter = PanelTile<T, kTileK, LatentSpec::kPart>;
  using Last = PanelTile<T, kTileK, LatentSpec::kDimQk - 3 * LatentSpec::kPart>;

  Q q;
  T* slots;
  Chunk* probabilities;
  float* factors;
  Mbarrier* full;  // [slot][part]

  __device__ __forceinline__ T* column(int slot, int column) const {
    return slots + slot * (kTileK * LatentSpec::kDimQk) + column / kBoxColumns * Quarter::kPanelElements;
  }
  // The columns of V of one of the two warpgroups.
  __device__ __forceinline__ Values values(int slot, int half) const { return {column(slot, half * LatentSpec::kHalf)}; }
  // The first kPart columns of a part.
  __device__ __forceinline__ Quarter quarter(int slot, int part) const { return {column(slot, part * LatentSpec::kPart)}; }
  // All columns of the last part.
  __device__ __forceinline__ Last last(int slot) const { return {column(slot, 3 * LatentSpec::kPart)}; }
  __device__ __forceinline__ Mbarrier* loaded(int slot, int part) const { return full + slot * LatentSpec::kParts + part; }
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
