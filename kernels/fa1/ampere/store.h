// The finish of a query tile: from a warp's accumulators to O and LSE in global memory.
#pragma once

#include "kernels/fa1/ampere/params.h"
#include "kernels/fa1/ampere/softmax.h"
#include "kernels/primitives/chunk.h"
#include "kernels/primitives/matrix.h"

namespace attn {

// Stores O and LSE of a warp's rows. O first goes to the warp's own rows of the Q tile, which no other warp
// reads, so that each thread can store 16 bytes of a row at once.
template <class T, AmpereSpec kSpec>
__device__ __forceinline__ void store_rows(const AmpereParams& p, const AmpereBlock& block,
                                           SharedTile<T, kSpec.dim> q,
                                           const float (&o)[kSpec.groups][kSpec.dim / 8][4],
                                           SoftmaxRows<kSpec.groups>& rows) {
  const int lane = lane_id(), warp_row = warp_id() * kSpec.warp_rows();
  const float sink = sink_of(p.sinks, block.h);
  RowResult result[kSpec.groups][2];
#pragma unroll
  for (int m = 0; m < kSpec.groups; ++m) finish_rows(rows, m, sink, result[m]);
  syncwarp();
#pragma unroll
  for (int n = 0; n < kSpec.dim / 8; ++n) {
    T* const column = q.at(warp_row + lane / 4, 8 * n + 2 * (lane % 4));
#pragma unroll
    for (int m = 0; m < kSpec.groups; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        // A dead row must be set to 0, not multiplied by 0: its accumulator may hold NaN.
        const RowResult& mine = result[m][r];
        const uint32_t word = pack2<T>(o[m][n][2 * r] * mine.inverse, o[m][n][2 * r + 1] * mine.inverse);
        // The swizzle repeats every eight rows.
        *reinterpret_cast<uint32_t*>(column + (16 * m + 8 * r) * kSpec.dim) = mine.dead ? 0 : word;
      }
    }
  }
  if (p.lse.data != nullptr && lane % 4 == 0) {
#pragma unroll
    for (int m = 0; m < kSpec.groups; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int32_t i = block.first_row + warp_row + lane / 4 + 16 * m + 8 * r;
        if (i < p.seq_q) *p.lse.at<float>(block.b, block.h, i) = result[m][r].lse;
      }
    }
  }
  syncwarp();
  constexpr int kChunks = kSpec.dim / 8, kStep = 32 / kChunks;
  const int column = lane % kChunks * 8, row = warp_row + lane / kChunks;
  T* to = p.o.at<T>(block.b, block.h, block.first_row + row) + column;
  const int32_t left = column < p.dim_v ? p.seq_q - block.first_row - row : 0;
#pragma unroll
  for (int r = 0; r < kSpec.warp_rows(); r += kStep) {
    const Chunk chunk = *reinterpret_cast<const Chunk*>(q.at(row + r, column));
    if (r < left) *reinterpret_cast<Chunk*>(to) = chunk;
    to += kStep * p.o.stride[2];
  }
}

}  // namespace attn
