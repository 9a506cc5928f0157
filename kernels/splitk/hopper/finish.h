// Stores an item's accumulators, as O and LSE or to the workspace, and merges the splits of the workspace into
// O and LSE.
#pragma once

#include "kernels/forward/store.h"
#include "kernels/primitives/barrier.h"
#include "kernels/primitives/dependent.h"
#include "kernels/primitives/shared.h"
#include "kernels/primitives/warpgroup.h"
#include "kernels/splitk/hopper/params.h"

namespace attn {

// Two neighbouring columns of a partial O.
struct alignas(8) ColumnPair {
  float at[2];
};

// Writes an item's result: to O and LSE if there is one split, else to the workspace. `my_row`: the thread's
// first row of the tile; its second row is 8 below. R: how many of its two rows a thread uses.
template <class T, int R, int D>
__device__ __forceinline__ void store_part(const DecodeParams& p, const Part& part, int my_row,
                                           RowState<D>& state) {
  const ForwardParams& f = p.forward;
  float sinks[2] = {neg_inf(), neg_inf()};  // with several splits, the merge takes in the sinks
  if (p.direct && f.sinks.data != nullptr) {
#pragma unroll
    for (int r = 0; r < R; ++r)
      sinks[r] = sink_of(f.sinks, part.kv_head * p.packed + static_cast<uint32_t>(my_row + 8 * r) % p.packed);
  }
  RowResult result[2];
  finish(state, sinks, result);
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

inline constexpr int kMergeGroups = 4, kMergeColumns = 128, kMergeAtOnce = 8;
inline constexpr int kMergeThreads = kMergeGroups * kMergeColumns, kMostColumns = 256;

// Over some splits s, `sum` is sum_s w_s O_s and `total` is sum_s w_s. w_s = e^(LSE_s - the row's largest LSE).
struct Merged {
  float sum, total;
};

// The largest LSE of a row, or its sink if that is larger. All lanes of a warp call this.
__device__ __forceinline__ float largest_lse(const DecodeParams& p, uint32_t row, float sink) {
  float largest = sink;
  for (uint32_t s = lane_id(); s < p.splits; s += 32)
    largest = fmax(largest, p.split.lse[s * p.split.rows + row]);
  return warp_max(largest);
}

// The sums over splits `first`, first + kMergeGroups, ... for one row and column; 0 for a column past the last.
// Also returns the row's largest LSE. All lanes of a warp call this.
__device__ __forceinline__ Merged merge_group(const DecodeParams& p, uint32_t row, int column, uint32_t first,
                                              float sink, float* largest) {
  const float* lse = p.split.lse + row;
  const float* o = p.split.o + static_cast<int64_t>(row) * p.forward.dim_v + column;
  const int64_t lse_step = p.split.rows, o_step = p.split.rows * p.forward.dim_v;
  const uint32_t splits = column < p.forward.dim_v ? p.splits : 0;
  float lses[kMergeAtOnce], os[kMergeAtOnce];
  const auto load = [&](uint32_t s) {
#pragma unroll
    for (uint32_t n = 0; n < kMergeAtOnce; ++n) {
      const uint32_t at = s + n * kMergeGroups;
      lses[n] = at < splits ? lse[at * lse_step] : neg_inf();
      os[n] = at < splits ? o[at * o_step] : 0.0f;
    }
  };
  load(first);
  *largest = largest_lse(p, row, sink);
  const float reference = *largest == neg_inf() ? 0.0f : *largest;
  Merged all = {0, 0};
  for (uint32_t s = first;;) {
#pragma unroll
    for (uint32_t n = 0; n < kMergeAtOnce; ++n) {
      const float weight = ex2((lses[n] - reference) * kLog2e);
      all.total += weight;
      all.sum = fma(weight, os[n], all.sum);
    }
    s += kMergeAtOnce * kMergeGroups;
    if (s >= splits) return all;
    load(s);
  }
}

// Merges the splits: one block for each row. Each of kMergeGroups groups of threads takes every kMergeGroups-th
// split, kMergeAtOnce splits at a time: it issues the loads of all of these before it uses the first. Each
// thread of a group has one column at a time. The formula is that of splitk_reduce_kernel.
template <class T>
__global__ void __launch_bounds__(kMergeThreads) splitk_merge_kernel(const __grid_constant__ DecodeParams p) {
  if constexpr (kHasWarpgroups) {
    SharedArena arena;
    Merged* shared = arena.carve<Merged>(kMergeGroups * kMostColumns);
    const ForwardParams& f = p.forward;
    const uint32_t row = blockIdx.x, seq_q = static_cast<uint32_t>(f.seq_q);
    const uint32_t heads = static_cast<uint32_t>(f.heads_q);
    const uint32_t i = row % seq_q, h = row / seq_q % heads, b = row / seq_q / heads;
    const int group = thread_id() / kMergeColumns;
    grid_dependency_wait();
    const float sink = sink_score(f.sinks, h);
    float largest;
    for (int first = 0; first < f.dim_v; first += kMergeColumns) {
      const int column = first + thread_id() % kMergeColumns;
      shared[group * kMostColumns + column] = merge_group(p, row, column, group, sink, &largest);
    }
    cta_sync();
    const int column = thread_id();
    if (column >= f.dim_v) return;
    Merged all = shared[column];
#pragma unroll
    for (int n = 1; n < kMergeGroups; ++n) {
      all.sum += shared[n * kMostColumns + column].sum;
      all.total += shared[n * kMostColumns + column].total;
    }
    if (sink != neg_inf()) all.total += ex2((sink - largest) * kLog2e);  // one more split, whose O is 0
    const bool dead = all.total == 0;
    if (column == 0 && f.lse.data != nullptr) {
      *f.lse.at<float>(b, h, i) = dead ? neg_inf() : fma(lg2(all.total), kLn2, largest);
    }
    f.o.at<T>(b, h, i)[column * f.o.stride[3]] = from_float<T>(dead ? 0.0f : all.sum * rcp(all.total));
  } else {
    no_warpgroups();
  }
}

}  // namespace attn
