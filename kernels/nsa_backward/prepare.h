// D of each query, and the bits of all blocks set to 0: what the variants on tensor cores need before dq.
//
// A block of threads has kPrepared queries of one head. 16 lanes share a query, and a lane has eight columns of
// it. If the words of bits need more blocks than the queries, the blocks from row_blocks on have no queries.
#pragma once

#include "kernels/nsa_backward/mma_params.h"

namespace attn::nsa {

inline constexpr int kPrepared = 64,
                     kPreparedBits = 16 * kThreads;  // words of bits of a block of threads, about

template <class T>
__global__ void __launch_bounds__(kThreads)
    prepare_kernel(const __grid_constant__ MmaParams call, int64_t bits, int64_t row_blocks) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t n = static_cast<int64_t>(blockIdx.x) * kThreads + thread_id(); n < bits; n += threads)
    call.bits[n] = 0;
  if (blockIdx.x >= row_blocks) return;  // the whole block returns

  const int64_t heads = call.of.of.heads_kv * call.of.of.group, longest = call.of.longest;
  const int64_t tiles = (longest + kPrepared - 1) / kPrepared, first = blockIdx.x % tiles * kPrepared;
  const int64_t h = blockIdx.x / tiles % heads, b = blockIdx.x / tiles / heads;
  const GradientParams p = of_entry<T>(call.of, b);
  const int column = lane_id() % 16 * 8, columns = p.of.dim_v - column;  // columns: from this lane's first on
  const T* const o_head = p.of.o.at<const T>(b, h, 0) + column * p.of.o.stride[3];
  const T* const dout_head = p.dout.at<const T>(b, h, 0) + column * p.dout.stride[3];
  for (int row = thread_id() / 16; row < kPrepared; row += kThreads / 16) {
    const int64_t i = first + row;
    const bool there = i < p.of.seq_q;
    float sum = 0;
    if (there && columns > 0) {
      const T *o = o_head + i * p.of.o.stride[2], *dout = dout_head + i * p.dout.stride[2];
      if (call.async_dout && call.async_o) {
        sum = backward::dot<T>(*reinterpret_cast<const Chunk*>(dout), *reinterpret_cast<const Chunk*>(o), 0);
      } else {
        for (int c = 0; c < 8 && c < columns; ++c)
          sum = fma(load(dout + c * p.dout.stride[3]), load(o + c * p.of.o.stride[3]), sum);
      }
    }
#pragma unroll
    for (int step = 1; step < 16; step *= 2) sum += shfl_xor(sum, step);
    if (column != 0 || !there) continue;
    if (p.dlse.data != nullptr) sum -= *p.dlse.at<float>(b, h, i);
    p.delta[(b * heads + h) * longest + i] = sum;
  }
}

}  // namespace attn::nsa
