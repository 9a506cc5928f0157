// A block's shared memory: a tile of Q, and slots of K and V with their barriers.
//
//   Q   64 rows x dim
//   K   stages slots of tile_k x dim       full, empty
//   V   stages slots of tile_k x dim       full, empty
//
// The producer waits for a slot's `empty`, and its copies complete `full`. The consumer waits for `full`, and
// arrives at `empty` when it has read the slot.
#pragma once

#include "kernels/primitives/barrier.h"
#include "kernels/primitives/shared.h"
#include "kernels/primitives/warpgroup.h"
#include "kernels/primitives/wgmma.h"
#include "kernels/splitk/hopper/params.h"

namespace attn {

template <class T, DecodeSpec kSpec>
struct DecodePipeline {
  using Q = PanelTile<T, DecodeSpec::kTileQ, kSpec.dim>;
  using KV = PanelTile<T, kSpec.tile_k, kSpec.dim>;

  Q q;
  T *k_tiles, *v_tiles;
  Mbarrier *k_full, *k_empty, *v_full, *v_empty;

  __device__ __forceinline__ KV k(int slot) const { return {k_tiles + slot * (kSpec.tile_k * kSpec.dim)}; }
  __device__ __forceinline__ KV v(int slot) const { return {v_tiles + slot * (kSpec.tile_k * kSpec.dim)}; }
};

template <class T, DecodeSpec kSpec>
__device__ __forceinline__ DecodePipeline<T, kSpec> decode_pipeline() {
  SharedArena arena;
  DecodePipeline<T, kSpec> pipe;
  pipe.q = {arena.template carve<T>(DecodeSpec::kTileQ * kSpec.dim, 1024)};
  pipe.k_tiles = arena.template carve<T>(kSpec.stages * kSpec.tile_k * kSpec.dim, 1024);
  pipe.v_tiles = arena.template carve<T>(kSpec.stages * kSpec.tile_k * kSpec.dim, 1024);
  Mbarrier* bars = arena.template carve<Mbarrier>(kSpec.barriers());
  pipe.k_full = bars;
  pipe.k_empty = bars + kSpec.stages;
  pipe.v_full = bars + 2 * kSpec.stages;
  pipe.v_empty = bars + 3 * kSpec.stages;
  return pipe;
}

// Named barriers: kOwnBarrier is for the consumer's threads. At kReadyBarrier they wait until the producer's
// warp has made the mbarriers; that warp arrives and does not wait.
inline constexpr int kOwnBarrier = 1, kReadyBarrier = 2;

}  // namespace attn
