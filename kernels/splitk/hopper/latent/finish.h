// Stores a warpgroup's accumulators, as O or to the workspace, and merges the splits of the workspace into O and LSE.
#pragma once

#include "kernels/splitk/hopper/finish.h"
#include "kernels/splitk/hopper/latent/layout.h"

namespace attn {

// What stands for the factor of a row that saw no key. Its accumulators may hold NaN, so they are not multiplied.
inline constexpr float kDeadRow = -1;

// Computes the factors by which the thread's two rows are normalised, and writes their LSE: to LSE if there is one
// split, else to the workspace. `my_row`: the thread's first row of the KV head.
template <int D>
__device__ __forceinline__ void finish_latent(const DecodeParams& p, const LatentPart& mine, int32_t my_row,
                                              RowState<D>& state, float (&factor)[2]) {
  const ForwardParams& f = p.forward;
  float sinks[2] = {neg_inf(), neg_inf()};  // with several splits, the merge takes in the sinks
  if (p.direct && f.sinks.data != nullptr) {
#pragma unroll
    for (int r = 0; r < 2; ++r)
      sinks[r] = sink_of(f.sinks, mine.part.kv_head * p.packed + static_cast<uint32_t>(my_row + 8 * r) % p.packed);
  }
  RowResult result[2];
  finish(state, sinks, result);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    factor[r] = result[r].dead ? kDeadRow : result[r].inverse;
    const int32_t row = my_row + 8 * r;
    if (row >= p.rows || lane_id() % 4 != 0) continue;
    const uint32_t query = static_cast<uint32_t>(row) / p.packed;
    const uint32_t head = mine.part.kv_head * p.packed + row - query * p.packed;
    if (!p.direct) {
      p.split.lse[partial_row(f, p.split, mine.part.split, mine.part.b, head, query)] = result[r].lse;
    } else if (f.lse.data != nullptr) {
      *f.lse.at<float>(mine.part.b, head, query) = result[r].lse;
    }
  }
}

// Writes the columns of O that the warpgroup has, from column `first` on.
template <class T, int D>
__device__ __forceinline__ void store_latent(const DecodeParams& p, const LatentPart& mine, int32_t my_row, int first,
                                             const float (&factor)[2], const RowState<D>& state) {
  const ForwardParams& f = p.forward;
  const int column = first + 2 * (lane_id() % 4), left = f.dim_v - column;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int32_t row = my_row + 8 * r;
    if (row >= p.rows) continue;
    const uint32_t query = static_cast<uint32_t>(row) / p.packed;
    const uint32_t head = mine.part.kv_head * p.packed + row - query * p.packed;
    const bool dead = factor[r] == kDeadRow;
    const auto value = [&](int n, int e) { return dead ? 0.0f : state.o[n][2 * r + e] * factor[r]; };
    if (p.direct) {
      T* o = f.o.at<T>(mine.part.b, head, query);
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
        if (8 * n < left) store_o(f, o, column + 8 * n, value(n, 0), value(n, 1));
      }
    } else {
      const int64_t at = partial_row(f, p.split, mine.part.split, mine.part.b, head, query);
      ColumnPair* o = reinterpret_cast<ColumnPair*>(p.split.o + at * f.dim_v + column);
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
        if (8 * n < left) o[4 * n] = {{value(n, 0), value(n, 1)}};
      }
    }
  }
}

inline constexpr int kLatentMergeColumns = 128, kLatentMergeAtOnce = 16;
inline constexpr int kLatentMergePairs = kLatentMergeColumns / 2, kLatentMergeThreads = kMergeGroups * kLatentMergePairs;

// Over some splits s, and for two columns, the sums of w_s O_s and the sum of w_s, as in Merged.
struct MergedPair {
  float sum[2], total;
};

// The sums over splits `first`, first + kMergeGroups, ... for one row and the columns `column` and column + 1.
__device__ __forceinline__ MergedPair merge_latent_group(const DecodeParams& p, uint32_t row, int column, uint32_t first,
                                                         float reference) {
  const float* lse = p.split.lse + row;
  const float* o = p.split.o + static_cast<int64_t>(row) * p.forward.dim_v + column;
  const int64_t lse_step = p.split.rows, o_step = p.split.rows * p.forward.dim_v;
  const uint32_t splits = column < p.forward.dim_v ? p.splits : 0;
  MergedPair all = {};
  for (uint32_t s = first; s < splits; s += kLatentMergeAtOnce * kMergeGroups) {
    float lses[kLatentMergeAtOnce];
    ColumnPair os[kLatentMergeAtOnce];
#pragma unroll
    for (uint32_t n = 0; n < kLatentMergeAtOnce; ++n) {
      const uint32_t at = s + n * kMergeGroups;
      lses[n] = at < splits ? lse[at * lse_step] : neg_inf();
      os[n] = at < splits ? *reinterpret_cast<const ColumnPair*>(o + at * o_step) : ColumnPair{};
    }
#pragma unroll
    for (uint32_t n = 0; n < kLatentMergeAtOnce; ++n) {
      const float weight = ex2((lses[n] - reference) * kLog2e);
      all.total += weight;
#pragma unroll
      for (int e = 0; e < 2; ++e) all.sum[e] = fma(weight, os[n].at[e], all.sum[e]);
    }
  }
  return all;
}

// Merges the splits: one block for each row and 128 columns. Each of kMergeGroups groups of threads takes every
// kMergeGroups-th split, and each thread two columns. The formula is that of splitk_reduce_kernel.
template <class T>
__global__ void __launch_bounds__(kLatentMergeThreads) splitk_latent_merge_kernel(const __grid_constant__ DecodeParams p,
                                                                                  uint32_t parts_of_row) {
  if constexpr (kHasWarpgroups) {
    SharedArena arena;
    MergedPair* shared = arena.carve<MergedPair>(kLatentMergeThreads);
    const ForwardParams& f = p.forward;
    const uint32_t row = blockIdx.x / parts_of_row, part = blockIdx.x - row * parts_of_row;
    const uint32_t seq_q = static_cast<uint32_t>(f.seq_q), heads = static_cast<uint32_t>(f.heads_q);
    const uint32_t i = row % seq_q, h = row / seq_q % heads, b = row / seq_q / heads;
    const int group = thread_id() / kLatentMergePairs, pair = thread_id() % kLatentMergePairs;
    const int column = static_cast<int>(part) * kLatentMergeColumns + 2 * pair;
    grid_dependency_wait();
    const float sink = sink_score(f.sinks, h), largest = largest_lse(p, row, sink);
    const float reference = largest == neg_inf() ? 0.0f : largest;
    shared[thread_id()] = merge_latent_group(p, row, column, group, reference);
    cta_sync();
    if (group != 0 || column >= f.dim_v) return;
    MergedPair all = shared[pair];
#pragma unroll
    for (int n = 1; n < kMergeGroups; ++n) {
      const MergedPair& more = shared[n * kLatentMergePairs + pair];
      all.total += more.total;
#pragma unroll
      for (int e = 0; e < 2; ++e) all.sum[e] += more.sum[e];
    }
    if (sink != neg_inf()) all.total += ex2((sink - largest) * kLog2e);  // one more split, whose O is 0
    const bool dead = all.total == 0;
    if (column == 0 && f.lse.data != nullptr) {
      *f.lse.at<float>(b, h, i) = dead ? neg_inf() : fma(lg2(all.total), kLn2, largest);
    }
    const float inverse = dead ? 0.0f : rcp(all.total);
    store_o(f, f.o.at<T>(b, h, i), column, dead ? 0.0f : all.sum[0] * inverse, dead ? 0.0f : all.sum[1] * inverse);
  }
}

}  // namespace attn
