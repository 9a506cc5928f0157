// The kernels of Split-K's general path: the partial kernel, with one block for each query tile and split, and
// the reduction, with one warp for each row.
#pragma once

#include "kernels/forward/split_params.h"
#include "kernels/forward/store.h"

namespace attn {

// Stores the partial results of a warp's rows in the workspace. If a row sees no key of the split, they are 0
// and -inf.
template <int DV>
__device__ void store_partial(const ForwardParams& p, const SplitParams& split, const BlockRows& block,
                              int64_t s, WarpPlace place, RowState<DV>& state) {
  RowResult result[2];
  finish(state, result);
  float* o_row[2] = {};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int64_t row = block.first_row + place.row + lane_id() / 4 + 8 * r;
    if (row >= block.rows) continue;
    const int64_t at = partial_row(p, split, s, block.b, block.first_head + row % p.packed, row / p.packed);
    o_row[r] = split.o + at * p.dim_v;
    if (lane_id() % 4 == 0 && place.column == 0) split.lse[at] = result[r].lse;
  }
  for_each_pair(p, state, result, place, [&](int r, int column, float value0, float value1) {
    if (o_row[r] == nullptr) return;
    o_row[r][column] = value0;
    if (column + 1 < p.dim_v) o_row[r][column + 1] = value1;
  });
}

// The rows and tiles of a block. The number of a block runs over query tiles fastest, then splits, then groups
// of `packed` heads, then batch entries.
struct SplitBlock {
  BlockRows rows;
  int64_t split;
  TileSpan tiles;  // the tiles of this split with a key that some row may see
};

template <class Shape>
__device__ SplitBlock this_block(const ForwardParams& p, const SplitParams& split, int64_t q_tiles) {
  const int64_t head_groups = p.heads_q / p.packed;
  int64_t index = blockIdx.x;
  const int64_t tile = index % q_tiles;
  index /= q_tiles;
  const int64_t s = index % split.splits;
  index /= split.splits;
  const Entry entry = entry_of(p, index / head_groups);
  const BlockRows block = {index / head_groups, index % head_groups * p.packed, tile * Shape::kTileQ,
                           entry.queries * p.packed, entry};

  TileSpan tiles = live_tiles<Shape>(block_range<Shape>(p, block));
  const int64_t split_begin = s * split.split_tiles, split_end = split_begin + split.split_tiles;
  if (tiles.begin < split_begin) tiles.begin = split_begin;
  if (tiles.end > split_end) tiles.end = split_end;
  return {block, s, tiles};
}

// `direct`: there is one split, which goes to O and LSE.
template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads)
    splitk_partial_kernel(const __grid_constant__ ForwardParams p, const __grid_constant__ SplitParams split,
                          int64_t q_tiles, bool direct) {
  const SplitBlock block = this_block<Shape>(p, split, q_tiles);
  if (block.rows.empty()) return;  // a longer batch entry has this tile, but this entry does not
  RowState<Shape::kDim> state;
  attend<Shape>(p, block.rows, block.tiles, state);
  if (direct) {
    store_final<typename Shape::T>(p, block.rows, whole_rows(), state);
  } else {
    store_partial(p, split, block.rows, block.split, whole_rows(), state);
  }
}

inline constexpr int kReduceWarps = 4;

// Merges splits: O = sum_s w_s O_s / sum_s w_s with w_s = exp(LSE_s - max LSE). Each O_s is already normalised
// by its own sum. A sink is one more split, whose O is 0.
template <class T>
__global__ void __launch_bounds__(kReduceWarps * 32)
    splitk_reduce_kernel(const __grid_constant__ ForwardParams p, const __grid_constant__ SplitParams split) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kReduceWarps + warp_id();
  if (row >= split.rows) return;  // the whole warp returns
  const int lane = lane_id();

  const int64_t i = row % p.seq_q, h = row / p.seq_q % p.heads_q, b = row / p.seq_q / p.heads_q;
  const Entry entry = entry_of(p, b);
  if (i >= entry.queries) return;  // the whole warp returns
  const float sink = sink_score(p.sinks, h);
  float largest = sink;
  for (int64_t s = lane; s < split.splits; s += 32) largest = fmax(largest, split.lse[s * split.rows + row]);
  largest = warp_max(largest);
  const float reference = largest == neg_inf() ? 0.0f : largest;

  float total = lane == 0 ? ex2((sink - reference) * kLog2e) : 0;
  for (int64_t s = lane; s < split.splits; s += 32) {
    total += ex2((split.lse[s * split.rows + row] - reference) * kLog2e);
  }
  total = warp_sum(total);
  const bool dead = total == 0;
  const float inverse = dead ? 0.0f : rcp(total);

  if (lane == 0 && p.lse.data != nullptr) {
    *p.lse.at<float>(b, h, entry.first_query + i) = dead ? neg_inf() : fma(lg2(total), kLn2, reference);
  }
  T* o = p.o.at<T>(b, h, entry.first_query + i);
  for (int column = lane; column < p.dim_v; column += 32) {
    float sum = 0;
    for (int64_t s = 0; s < split.splits; ++s) {
      const int64_t at = s * split.rows + row;
      const float weight = ex2((split.lse[at] - reference) * kLog2e);
      sum = fma(weight, split.o[at * p.dim_v + column], sum);
    }
    o[column * p.o.stride[3]] = from_float<T>(dead ? 0.0f : sum * inverse);
  }
}

}  // namespace attn
