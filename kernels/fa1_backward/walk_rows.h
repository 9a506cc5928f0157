// The kernels before and after the walks: D and the scaled LSE of each query, and dQ from its sums. They may be
// dependent launches.
#pragma once

#include "kernels/fa1_backward/walk_params.h"
#include "kernels/primitives/chunk.h"
#include "kernels/primitives/dependent.h"
#include "kernels/primitives/fragment_sums.h"

namespace attn::backward {

// The block's kRowTile rows of a head.
struct RowBlock {
  int64_t b, h;
  int32_t first;
};
__device__ __forceinline__ RowBlock row_block(const WalkParams& p) {
  const int32_t tiles = p.rows / kRowTile, heads = static_cast<int32_t>(p.of.forward.heads_q);
  const int32_t block = static_cast<int32_t>(blockIdx.x), head = block / tiles;
  return {head / heads, head % heads, block % tiles * kRowTile};
}

// Loads eight columns of a row from `at` on: with one load if `whole`, else one by one.
template <class T>
__device__ __forceinline__ Chunk load_chunk(const T* at, int64_t stride, bool whole) {
  if (whole) return *reinterpret_cast<const Chunk*>(at);
  Chunk chunk;
#pragma unroll
  for (int n = 0; n < 4; ++n)
    chunk.words[n] = at[2 * n * stride].bits | static_cast<uint32_t>(at[(2 * n + 1) * stride].bits) << 16;
  return chunk;
}
template <class T>
__device__ __forceinline__ void store_chunk(T* at, int64_t stride, bool whole, const Chunk& chunk) {
  if (whole) {
    *reinterpret_cast<Chunk*>(at) = chunk;
    return;
  }
#pragma unroll
  for (int n = 0; n < 8; ++n) at[n * stride] = T{static_cast<uint16_t>(chunk.words[n / 2] >> 16 * (n % 2))};
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

// Computes D = sum_c dO O - dLSE and LSE log2 e of a block's rows, copies dO if p.of.dout is a copy, and sets
// the sums of dQ and the number of taken items to 0 if there are any. D / 8 lanes share a row.
template <class T, int D>
__global__ void __launch_bounds__(kThreads) prepare_rows(const __grid_constant__ WalkParams p) {
  constexpr int kLanes = D / 8, kStep = kThreads / kLanes;
  grid_dependents_start();
  grid_dependency_wait();
  const ForwardParams& f = p.of.forward;
  const RowBlock block = row_block(p);
  const EntryRows rows = entry_rows(p, block.b);
  const int64_t first = (block.b * f.heads_q + block.h) * p.rows + block.first;
  const int column = thread_id() % kLanes * 8;
  if (p.taken != nullptr && blockIdx.x == 0 && thread_id() == 0) *p.taken = 0;
  if (p.sums != nullptr) {
    Floats* const to = reinterpret_cast<Floats*>(p.sums + first * D);
#pragma unroll
    for (int n = 0; n < kRowTile * D / 4; n += kThreads) to[n + thread_id()] = Floats{};
  }
  // All loads come first, because a store to the workspace would hold back the loads after it.
  constexpr int kRounds = kRowTile / kStep;
  Chunk o[kRounds] = {}, dout[kRounds] = {};
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int32_t i = block.first + r * kStep + thread_id() / kLanes;
    if (i >= rows.queries || column >= f.dim_v) continue;
    const Strided& given = p.given_dout;
    o[r] = load_chunk(f.o.at<T>(block.b, block.h, rows.first_query + i) + column * f.o.stride[3], f.o.stride[3],
                      p.whole.o);
    dout[r] = load_chunk(given.at<T>(block.b, block.h, rows.first_query + i) + column * given.stride[3],
                         given.stride[3], p.whole.dout);
  }
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int row = r * kStep + thread_id() / kLanes;
    const int32_t i = block.first + row;
    const bool there = i < rows.queries;
    if (!p.whole.dout && there && column < f.dim_v)
      store_chunk(p.of.dout.at<T>(block.b, block.h, rows.first_query + i) + column, 1, true, dout[r]);
    float sum = dot<T>(dout[r], o[r], 0);
#pragma unroll
    for (int step = 1; step < kLanes; step *= 2) sum += shfl_xor(sum, step);
    if (column != 0) continue;
    if (there && p.of.dlse.data != nullptr) sum -= *p.of.dlse.at<float>(block.b, block.h, rows.first_query + i);
    p.delta[first + row] = there ? sum : 0;
    p.lse2[first + row] = there ? *f.lse.at<float>(block.b, block.h, rows.first_query + i) * kLog2e : 0;
  }
}

// Transposes the 4 by 4 words of four lanes: word n of lane t becomes word t of lane n.
__device__ __forceinline__ void transpose_quad(uint32_t (&w)[4]) {
#pragma unroll
  for (int mask = 1; mask <= 2; mask *= 2) {
    const bool high = (lane_id() & mask) != 0;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      if (n & mask) continue;
      const uint32_t got = shfl_xor(high ? w[n] : w[n | mask], mask);
      if (high)
        w[n] = got;
      else
        w[n | mask] = got;
    }
  }
}

// Stores a warp's 16 rows of a gradient times `scale`, from C fragments. `first` is the first of the rows;
// `head` has row 0. Rows from `last` on are not stored, and rows from `length` on are stored as 0.
template <class T, int N>
__device__ __forceinline__ void store_fragment_rows(const float (&c)[N][4], T* head, const Strided& to,
                                                    bool whole, int32_t first, int32_t length, int32_t last,
                                                    int dim, float scale) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int32_t row = first + 8 * r + lane_id() / 4;
#pragma unroll
    for (int n = 0; n < N; n += 4) {
      Chunk chunk;
#pragma unroll
      for (int e = 0; e < 4; ++e)
        chunk.words[e] = row < length ? pack2<T>(c[n + e][2 * r] * scale, c[n + e][2 * r + 1] * scale) : 0;
      transpose_quad(chunk.words);
      const int column = 8 * (n + lane_id() % 4);
      if (column < dim && row < last)
        store_chunk(head + row * to.stride[2] + column * to.stride[3], to.stride[3], whole, chunk);
    }
  }
}

// Computes dQ: its sums times the scale. A warp has 16 rows.
template <class T, int D>
__global__ void __launch_bounds__(kThreads) finish_dq(const __grid_constant__ WalkParams p) {
  static_assert(kRowTile == 16 * kWarps);
  grid_dependents_start();
  grid_dependency_wait();
  const ForwardParams& f = p.of.forward;
  const RowBlock block = row_block(p);
  const EntryRows rows = entry_rows(p, block.b);
  const int32_t first = block.first + 16 * warp_id();
  const float* const sums = p.sums + ((block.b * f.heads_q + block.h) * p.rows + first) * D;
  if (first >= rows.queries) return;  // the whole warp returns
  float c[D / 8][4];
#pragma unroll
  for (int n = 0; n < D / 8; ++n) load_fragment(sums + 128 * n, c[n]);
  store_fragment_rows(c, p.of.dq.at<T>(block.b, block.h, rows.first_query), p.of.dq, p.whole.dq, first,
                      rows.queries, rows.queries, f.dim_qk, f.scale);
}

}  // namespace attn::backward
