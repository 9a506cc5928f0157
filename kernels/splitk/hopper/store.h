// From the accumulators of an item to the workspace, or to O and LSE.
#pragma once

#include "kernels/forward/store.h"
#include "kernels/splitk/hopper/params.h"

namespace attn {

// Two neighbouring columns of a partial O.
struct alignas(8) ColumnPair {
  float at[2];
};

// `my_row`: of the tile, this thread's first; its second is 8 below it.
template <class T, int R, int D>
__device__ __forceinline__ void store_part(const DecodeParams& p, const Part& part, int my_row,
                                           RowState<D>& state) {
  const ForwardParams& f = p.forward;
  RowResult result[2];
  finish(state, result);
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int row = my_row + 8 * r;
    if (row >= p.rows) continue;
    const RowResult mine = result[r];
    const uint32_t query = static_cast<uint32_t>(row) / p.packed;
    const uint32_t head = part.kv_head * p.packed + row - query * p.packed;
    const auto value = [&](int n, int e) { return mine.dead ? 0.0f : state.o[n][2 * r + e] * mine.inverse; };
    if (p.direct) {
      if (lane_id() % 4 == 0 && f.lse.data != nullptr) *f.lse.at<float>(part.b, head, query) = mine.lse;
      T* o = f.o.at<T>(part.b, head, query);
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
        const int column = 8 * n + 2 * (lane_id() % 4);
        if (column < f.dim_v) store_o(f, o, column, value(n, 0), value(n, 1));
      }
    } else {
      const int64_t at = partial_row(f, p.split, part.split, part.b, head, query);
      if (lane_id() % 4 == 0) p.split.lse[at] = mine.lse;
      float* o = p.split.o + at * f.dim_v;
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
        const int column = 8 * n + 2 * (lane_id() % 4);
        if (column < f.dim_v) *reinterpret_cast<ColumnPair*>(o + column) = {{value(n, 0), value(n, 1)}};
      }
    }
  }
}

}  // namespace attn
