// Writes the accumulators of a thread's two rows to O and LSE in global memory.
#pragma once

#include "kernels/forward/attend.h"

namespace attn {

// The part of a block's O that a warp holds: 16 rows, and the columns of the warp's RowState.
struct WarpPlace {
  int row, column;  // the first row and the first column
};

// The place of a warp that holds all columns of its rows.
__device__ __forceinline__ WarpPlace whole_rows() { return {static_cast<int>(warp_id()) * 16, 0}; }

// Calls store(row, column, value0, value1) for every pair of neighbouring columns below dim_v that this thread
// holds of its two rows. `row` is 0 or 1. If column + 1 == dim_v, store() must not write value1.
template <int DV, class Store>
__device__ void for_each_pair(const ForwardParams& p, const RowState<DV>& state, const RowResult (&result)[2],
                              WarpPlace place, Store store) {
#pragma unroll
  for (int n = 0; n < DV / 8; ++n) {
    const int column = place.column + 8 * n + 2 * (lane_id() % 4);
    if (column >= p.dim_v) continue;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      // A dead row must be set to 0, not multiplied by 0: its accumulator may hold NaN.
      const float value0 = result[r].dead ? 0.0f : state.o[n][2 * r] * result[r].inverse;
      const float value1 = result[r].dead ? 0.0f : state.o[n][2 * r + 1] * result[r].inverse;
      store(r, column, value0, value1);
    }
  }
}

// Stores two neighbouring columns of a row of O, or one if column + 1 == dim_v.
template <class T>
__device__ void store_o(const ForwardParams& p, T* row, int column, float value0, float value1) {
  if (p.paired_o) {
    *reinterpret_cast<uint32_t*>(row + column) = pack2<T>(value0, value1);
    return;
  }
  row[column * p.o.stride[3]] = from_float<T>(value0);
  if (column + 1 < p.dim_v) row[(column + 1) * p.o.stride[3]] = from_float<T>(value1);
}

// Stores O and LSE of a block that has seen all keys of its rows.
template <class T, int DV>
__device__ void store_final(const ForwardParams& p, const BlockRows& block, WarpPlace place, RowState<DV>& state) {
  const int64_t first_row = block.first_row + place.row + lane_id() / 4;
  float sinks[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) sinks[r] = sink_of(p.sinks, block.first_head + (first_row + 8 * r) % p.packed);
  RowResult result[2];
  finish(state, sinks, result);
  T* o_row[2] = {};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int64_t row = first_row + 8 * r;
    if (row >= block.rows) continue;
    const int64_t h = block.first_head + row % p.packed, i = block.entry.first_query + row / p.packed;
    o_row[r] = p.o.at<T>(block.b, h, i);
    const bool has_lse = lane_id() % 4 == 0 && place.column == 0 && p.lse.data != nullptr;
    if (has_lse) *p.lse.at<float>(block.b, h, i) = result[r].lse;
  }
  for_each_pair(p, state, result, place, [&](int r, int column, float value0, float value1) {
    if (o_row[r] != nullptr) store_o(p, o_row[r], column, value0, value1);
  });
}

}  // namespace attn
