// What precedes and follows the walks: D and the scaled LSE of each query, and dQ out of its sums.
#pragma once

#include "kernels/fa1_backward/walk_params.h"
#include "kernels/primitives/fragment_sums.h"

namespace attn::backward {

struct alignas(16) Chunk {
  uint32_t words[4];
};
struct alignas(16) Floats {
  float at[4];
};

// A block of these kernels has kRowTile rows of a head.
struct RowBlock {
  int64_t b, h;
  int32_t first;
};
__device__ __forceinline__ RowBlock row_block(const WalkParams& p) {
  const int32_t tiles = p.rows / kRowTile, heads = static_cast<int32_t>(p.of.forward.heads_q);
  const int32_t block = static_cast<int32_t>(blockIdx.x), head = block / tiles;
  return {head / heads, head % heads, block % tiles * kRowTile};
}

template <class T>
__device__ __forceinline__ float dot(const Chunk& a, const Chunk& b, float sum) {
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    float low_a, high_a, low_b, high_b;
    unpack2<T>(a.words[n], low_a, high_a);
    unpack2<T>(b.words[n], low_b, high_b);
    sum = fma(low_a, low_b, sum);
    sum = fma(high_a, high_b, sum);
  }
  return sum;
}

// D = sum_c dO O - dLSE and LSE log2 e of a block's rows, and zeros in the place of the sums of dQ. D / 8 lanes
// a row.
template <class T, int D>
__global__ void __launch_bounds__(kThreads) prepare_rows(const __grid_constant__ WalkParams p) {
  constexpr int kLanes = D / 8, kStep = kThreads / kLanes;
  const ForwardParams& f = p.of.forward;
  const RowBlock block = row_block(p);
  const EntryRows rows = entry_rows(p, block.b);
  const int64_t first = (block.b * f.heads_q + block.h) * p.rows + block.first;
  const int column = thread_id() % kLanes * 8;
  if (p.sums != nullptr) {
    Floats* const to = reinterpret_cast<Floats*>(p.sums + first * D);
#pragma unroll
    for (int n = 0; n < kRowTile * D / 4; n += kThreads) to[n + thread_id()] = Floats{};
  }
#pragma unroll
  for (int r = 0; r < kRowTile; r += kStep) {
    const int row = r + thread_id() / kLanes;
    const int32_t i = block.first + row;
    const bool there = i < rows.queries;
    float sum = 0;
    if (there && column < f.dim_v) {
      const T* o = f.o.at<T>(block.b, block.h, rows.first_query + i) + column;
      const T* dout = p.of.dout.at<T>(block.b, block.h, rows.first_query + i) + column;
      sum = dot<T>(*reinterpret_cast<const Chunk*>(dout), *reinterpret_cast<const Chunk*>(o), 0);
    }
#pragma unroll
    for (int step = 1; step < kLanes; step *= 2) sum += shfl_xor(sum, step);
    if (column != 0) continue;
    if (there && p.of.dlse.data != nullptr) sum -= *p.of.dlse.at<float>(block.b, block.h, rows.first_query + i);
    p.delta[first + row] = there ? sum : 0;
    p.lse2[first + row] = there ? *f.lse.at<float>(block.b, block.h, rows.first_query + i) * kLog2e : 0;
  }
}

// dQ = scale times its sums. A thread has 8 columns of each of a few rows.
template <class T, int D>
__global__ void __launch_bounds__(kThreads) finish_dq(const __grid_constant__ WalkParams p) {
  constexpr int kLanes = D / 8, kStep = kThreads / kLanes;
  const ForwardParams& f = p.of.forward;
  const RowBlock block = row_block(p);
  const EntryRows rows = entry_rows(p, block.b);
  const int64_t first = (block.b * f.heads_q + block.h) * p.rows + block.first;
  const int n = thread_id() % kLanes;
  if (8 * n >= f.dim_qk) return;
#pragma unroll
  for (int r = 0; r < kRowTile; r += kStep) {
    const int row = r + thread_id() / kLanes;
    if (block.first + row >= rows.queries) return;
    const float* const sums = p.sums + first * D + (row / 16 * kLanes + n) * 128;
    Chunk chunk;
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const int lane = row % 8 * 4 + t, e = row % 16 / 8 * 2;
      chunk.words[t] = pack2<T>(sums[fragment_place(lane, e)] * f.scale, sums[fragment_place(lane, e + 1)] * f.scale);
    }
    T* const to = p.of.dq.at<T>(block.b, block.h, rows.first_query + block.first + row) + 8 * n;
    *reinterpret_cast<Chunk*>(to) = chunk;
  }
}

}  // namespace attn::backward
