// Stores a warpgroup's accumulators, as O or to the workspace, and merges the splits of the workspace into O and LSE.
#pragma once

#include "kernels/splitk/hopper/finish.h"
#include "kernels/splitk/hopper/latent/layout.h"

namespace attn {

// This number marks a row that saw no key. Its accumulators may hold NaN, so they are not multiplied by a factor.
inline constexpr float kDeadRow = -1;

// A thread's accumulators of O: half[h][n][e] is column 128 h + 8 n + 2 (lane % 4) + e % 2 of its row e / 2.
struct LatentSums {
  float half[2][LatentSpec::kPart / 8][4] = {};
};

// The row of a thread in the tile; its second row is 8 below.
__device__ __forceinline__ int latent_row() { return warp_id() % 4 * 16 + lane_id() / 4; }

// Computes the factors by which the thread's two rows are normalised, and writes their LSE: to LSE if there is one
// split, else to the workspace. `my_row`: the thread's first row of the KV head.
__device__ __forceinline__ void finish_latent(const DecodeParams& p, const LatentPart& mine, int32_t my_row,
                                              RowState<0>& state, float (&factor)[2]) {
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

// Writes the columns of O that the warpgroup has, from column `first` on, from registers.
template <class T>
__device__ __forceinline__ void store_latent_pairs(const DecodeParams& p, const LatentPart& mine, int first,
                                                   const float (&factor)[2], const LatentSums& sums) {
  constexpr int D = LatentSpec::kHalf, kOfHalf = D / 16;
  const ForwardParams& f = p.forward;
  const int column = first + 2 * (lane_id() % 4), left = f.dim_v - column;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int32_t row = mine.first_row + latent_row() + 8 * r;
    if (row >= p.rows) continue;
    const uint32_t query = static_cast<uint32_t>(row) / p.packed;
    const uint32_t head = mine.part.kv_head * p.packed + row - query * p.packed;
    const bool dead = factor[r] == kDeadRow;
    const auto value = [&](int n, int e) { return dead ? 0.0f : sums.half[n / kOfHalf][n % kOfHalf][2 * r + e] * factor[r]; };
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

// Does the same through shared memory, in chunks of 16 bytes: a warp writes a row at a time. E: float for partial
// results, else T. `stage`: room for the warp's 16 rows.
template <class T, class E>
__device__ __forceinline__ void store_latent_rows(const DecodeParams& p, const LatentPart& mine, int first,
                                                  const float (&factor)[2], const LatentSums& sums, Chunk* stage) {
  constexpr int D = LatentSpec::kHalf, kOfHalf = D / 16, kOfChunk = 16 / sizeof(E), kChunks = D / kOfChunk;
  const ForwardParams& f = p.forward;
  // Rows 0..7 have their chunks in eight orders, so that neither the fragments nor the rows meet in a bank.
  const auto chunk_at = [&](int row, int chunk) { return stage + row * kChunks + (chunk ^ row % 8); };
  const int column = 2 * (lane_id() % 4);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const bool dead = factor[r] == kDeadRow;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      const float(&o)[4] = sums.half[n / kOfHalf][n % kOfHalf];
      const float value0 = dead ? 0.0f : o[2 * r] * factor[r], value1 = dead ? 0.0f : o[2 * r + 1] * factor[r];
      Chunk* chunk = chunk_at(lane_id() / 4 + 8 * r, (8 * n + column) / kOfChunk);
      if constexpr (sizeof(E) == 4) {
        reinterpret_cast<ColumnPair*>(chunk)[column / 2 % 2] = {{value0, value1}};
      } else {
        reinterpret_cast<uint32_t*>(chunk)[column / 2] = pack2<T>(value0, value1);
      }
    }
  }
  syncwarp();
  const int32_t first_row = mine.first_row + warp_id() % 4 * 16, past = p.rows - first_row;
  for (int i = 0; i < (past < 16 ? past : 16); ++i) {
    const uint32_t row = static_cast<uint32_t>(first_row + i), query = row / p.packed;
    const uint32_t head = mine.part.kv_head * p.packed + row - query * p.packed;
    E* o;
    if constexpr (sizeof(E) == 4) {
      o = p.split.o + partial_row(f, p.split, mine.part.split, mine.part.b, head, query) * f.dim_v;
    } else {
      o = f.o.at<T>(mine.part.b, head, query);
    }
#pragma unroll
    for (int c = lane_id(); c < kChunks; c += 32) {
      if (first + c * kOfChunk < f.dim_v) *reinterpret_cast<Chunk*>(o + first + c * kOfChunk) = *chunk_at(i, c);
    }
  }
}

inline constexpr int kLatentMergeColumns = 128, kLatentMergeWarps = kMergeGroups;
// With more splits, the warps of a block share a row.
inline constexpr int64_t kLatentFewSplits = 8;

// Sums over splits for four columns, as in Merged.
struct MergedColumns {
  float sum[4], total;
};

__device__ __forceinline__ void add_columns(MergedColumns& to, const MergedColumns& more) {
  to.total += more.total;
#pragma unroll
  for (int e = 0; e < 4; ++e) to.sum[e] += more.sum[e];
}

// Four columns of a partial O from `column` on, of which `left` exist.
__device__ __forceinline__ MergedColumns partial_columns(const float* o, int left, bool chunks) {
  MergedColumns four = {};
  if (chunks) {
    const Chunk chunk = *reinterpret_cast<const Chunk*>(o);
#pragma unroll
    for (int e = 0; e < 4; ++e) four.sum[e] = __builtin_bit_cast(float, chunk.words[e]);
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (e < left) four.sum[e] = o[e];
    }
  }
  return four;
}

// The sums over splits `first`, first + kStep, ... for one row and four columns. Part s mod kMergeGroups takes split s,
// and the parts are added in order. Also returns the row's largest LSE. All lanes of a warp call this.
template <int kStep, int kAtOnce>
__device__ __forceinline__ MergedColumns merge_latent(const DecodeParams& p, uint32_t row, int column, uint32_t first,
                                                      float sink, float* largest) {
  constexpr int kParts = kMergeGroups / kStep;
  const int dim_v = p.forward.dim_v;
  const float* lse = p.split.lse + row;
  const float* o = p.split.o + static_cast<int64_t>(row) * dim_v + column;
  const int64_t lse_step = p.split.rows, o_step = p.split.rows * dim_v;
  const uint32_t splits = column < dim_v ? p.splits : 0;
  MergedColumns some[kAtOnce];
  const auto load = [&](uint32_t s) {
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
      const uint32_t at = s + n * kStep;
      some[n] = at < splits ? partial_columns(o + at * o_step, dim_v - column, dim_v % 4 == 0) : MergedColumns{};
      some[n].total = at < splits ? lse[at * lse_step] : neg_inf();
    }
  };
  load(first);  // before the largest LSE is known
  *largest = largest_lse(p, row, sink);
  const float reference = *largest == neg_inf() ? 0.0f : *largest;
  MergedColumns parts[kParts] = {};
  for (uint32_t s = first;;) {
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
      const float weight = ex2((some[n].total - reference) * kLog2e);
      MergedColumns& part = parts[n % kParts];
      part.total += weight;
#pragma unroll
      for (int e = 0; e < 4; ++e) part.sum[e] = fma(weight, some[n].sum[e], part.sum[e]);
    }
    s += kAtOnce * kStep;
    if (s >= splits) break;
    load(s);
  }
#pragma unroll
  for (int n = 1; n < kParts; ++n) add_columns(parts[0], parts[n]);
  return parts[0];
}

// Merges the splits. A unit is 128 columns of one row. kShared: the warps of a block share a unit, and warp g takes every
// kMergeGroups-th split from split g on. Otherwise each warp has its own unit. The formula is that of
// splitk_reduce_kernel.
template <class T, bool kShared>
__global__ void __launch_bounds__(kLatentMergeWarps * 32)
    splitk_latent_merge_kernel(const __grid_constant__ DecodeParams p, uint32_t units, uint32_t units_of_row) {
  if constexpr (kHasWarpgroups) {
    SharedArena arena;
    MergedColumns* shared = kShared ? arena.carve<MergedColumns>(kLatentMergeWarps * 32) : nullptr;
    const ForwardParams& f = p.forward;
    const uint32_t unit = kShared ? blockIdx.x : blockIdx.x * kLatentMergeWarps + warp_id();
    grid_dependency_wait();
    grid_dependents_start();
    if (unit >= units) return;
    const uint32_t row = unit / units_of_row, seq_q = static_cast<uint32_t>(f.seq_q);
    const uint32_t heads = static_cast<uint32_t>(f.heads_q);
    const uint32_t i = row % seq_q, h = row / seq_q % heads, b = row / seq_q / heads;
    const int column = static_cast<int>(unit - row * units_of_row) * kLatentMergeColumns + 4 * lane_id();
    const float sink = sink_score(f.sinks, h);
    float largest;
    MergedColumns all;
    if constexpr (kShared) {
      shared[thread_id()] = merge_latent<kMergeGroups, 8>(p, row, column, warp_id(), sink, &largest);
      cta_sync();
      if (warp_id() != 0) return;
      all = shared[lane_id()];
#pragma unroll
      for (int n = 1; n < kLatentMergeWarps; ++n) add_columns(all, shared[n * 32 + lane_id()]);
    } else {
      all = merge_latent<1, kLatentFewSplits>(p, row, column, 0, sink, &largest);
    }
    if (column >= f.dim_v) return;
    if (sink != neg_inf()) all.total += ex2((sink - largest) * kLog2e);  // one more split, whose O is 0
    const bool dead = all.total == 0;
    if (column == 0 && f.lse.data != nullptr) {
      *f.lse.at<float>(b, h, i) = dead ? neg_inf() : fma(lg2(all.total), kLn2, largest);
    }
    const float inverse = dead ? 0.0f : rcp(all.total);
    T* o = f.o.at<T>(b, h, i);
#pragma unroll
    for (int e = 0; e < 4; e += 2) {
      if (column + e >= f.dim_v) break;
      store_o(f, o, column + e, dead ? 0.0f : all.sum[e] * inverse, dead ? 0.0f : all.sum[e + 1] * inverse);
    }
  } else {
    no_warpgroups();
  }
}

}  // namespace attn
