// The finish of a query tile: from a consumer's accumulators to O and LSE in global memory.
#pragma once

#include "kernels/fa1/hopper/layout.h"
#include "kernels/forward/warpgroup_softmax.h"
#include "kernels/primitives/chunk.h"
#include "kernels/primitives/matrix_store.h"

namespace attn {

// Copies the first `count` rows of a warpgroup's O, which begin at row `row` of `tile`, to O's rows from `to` on.
// The copy engine would write 64 rows, and those after the last query belong to the next packed entry.
template <class T, class Tile>
__device__ __forceinline__ void copy_rows(const HopperParams& p, Tile tile, int row, const FirstRow& to, int32_t h,
                                          int32_t count) {
  const int chunks = p.dim_v / 8;
  for (int n = thread_id() % kWarpgroup; n < count * chunks; n += kWarpgroup) {
    const int i = n / chunks, column = n % chunks * 8;
    *reinterpret_cast<Chunk*>(p.o_rows.at<T>(to.b, h, to.row + i) + column) =
        *reinterpret_cast<const Chunk*>(tile.at(row + i, column));
  }
}

// Writes O to the 64 rows of `tile` from `row` on. No warpgroup may read these rows any more. Then one thread
// starts the copies to global memory as one bulk group; the slot of `tile` is free when that group has read it.
// `consumer` is the index of the 64 rows in the query tile.
template <class T, HopperSpec kSpec, class Tile>
__device__ __forceinline__ void store_rows(const HopperParams& p, Tile tile, int row, int consumer,
                                           const Work& work, RowState<kSpec.dim>& state) {
  const int lane = lane_id(), warp_row = warp_id() % 4 * 16;
  const auto [b, h] = head_of<kSpec>(p, work);
  const int32_t first = work.tile * kSpec.tile_q() + 64 * consumer, left = queries_of<kSpec>(p, b) - first;
  const FirstRow start = first_row<kSpec>(p, p.ragged.cu_q, b), to = {start.row + first, start.b};
  if (p.sinks.data != nullptr) grid_dependency_wait();
  const float sink = sink_of(p.sinks, h), sinks[2] = {sink, sink};
  RowResult result[2];
  finish(state, sinks, result);
#pragma unroll
  for (int n = 0; n < kSpec.dim / 16; ++n) {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const RowResult& mine = result[i % 2];
      const float(&o)[4] = state.o[2 * n + i / 2];
      // A dead row must be set to 0, not multiplied by 0: its accumulator may hold NaN.
      words[i] = pack2<T>(mine.dead ? 0.0f : o[i % 2 * 2] * mine.inverse,
                          mine.dead ? 0.0f : o[i % 2 * 2 + 1] * mine.inverse);
    }
    stsm4(tile.at(row + warp_row + lane % 16, 16 * n + lane / 16 * 8), words);
  }
  fence_proxy_async();
  if (p.lse != nullptr && lane % 4 == 0) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int32_t i = warp_row + lane / 4 + 8 * r;
      if (i < left)
        p.lse[to.b * p.lse_stride[0] + h * p.lse_stride[1] + (to.row + i) * p.lse_stride[2]] = result[r].lse;
    }
  }
  bar_sync(own_barrier(consumer), kWarpgroup);
  if (kSpec.lengths && p.ragged.cu_q != nullptr && left < 64) {
    copy_rows<T>(p, tile, row, to, h, left);
    bar_sync(own_barrier(consumer), kWarpgroup);  // all rows are read, and the leader may free the slot
    return;
  }
  if (thread_id() % kWarpgroup == 0) {
#pragma unroll
    for (int n = 0; n < kSpec.dim / kBoxColumns; ++n) {
      tma_store(p.o, tile.panel(n) + row * kBoxColumns, {{n * kBoxColumns, to.row, h, to.b}});
    }
    bulk_commit();
  }
}

}  // namespace attn
