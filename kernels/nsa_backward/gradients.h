// The gradients of attention over listed blocks (ATTN_FEATURE_SELECTED_BACKWARD), in a fixed order. README.md lists
// the four kernels. dq_kernel cleans each list (selected.h, load_list) and writes it to the workspace, where
// invert_kernel reads it.
//
// A warp of dq_kernel keeps its query's Q and dO in shared memory and walks over keys in tiles of 32. A warp of
// dkdv_kernel keeps its key's K and V and walks over queries. For P and dA each lane has one row of the tile;
// for the sums each lane has columns. All numbers are fp32.
#pragma once

#include "kernels/nsa/selected.h"

namespace attn::nsa {

struct GradientParams {
  SelectedParams of;               // o and lse: the results of the forward call
  Strided dout, dlse, dq, dk, dv;  // dlse.data is nullptr if there is none
  int64_t rows, keys, blocks;      // queries of all heads, keys of all KV heads, blocks of keys of one KV head
  int64_t longest;                 // queries of the longest entry: each entry has so many rows in the workspace
  float* delta;                    // D of each row of (b, h, i), dense
  int32_t* lists;    // (b, g, i, n): blocks of which the query sees a key, each once; -1 elsewhere
  int32_t* starts;   // (b, g, c), blocks + 1 of them: where the queries of block c begin in `queries`
  int32_t* queries;  // (b, g, n): the queries of block 0, those of block 1, ..., each ascending
};

// The shared memory of nsa, and two more arrays for each warp. Here `q` is the warp's own row of Q or K, `y`
// its row of dO or V, `weight` and `a` are P and dA of the tile's rows, and `key` has the numbers of these
// rows; -1: hidden.
struct GradientShared : Shared {
  float *y, *a;

  __device__ GradientShared(SharedArena& arena, int32_t select)
      : Shared(arena, select),
        y(arena.carve<float>(kWarps * kMostColumns) + warp_id() * kMostColumns),
        a(arena.carve<float>(kWarps * kTile) + warp_id() * kTile) {}

  static size_t bytes(int64_t select) {
    return Shared::bytes(select) + shared_bytes<float>(kWarps * kMostColumns) +
           shared_bytes<float>(kWarps * kTile);
  }
};

// The parameters for batch entry b (kernels/nsa/selected.h). Pointers to the workspace do not move.
template <class T>
__device__ GradientParams of_entry(GradientParams p, int64_t b) {
  if (p.of.cu_q != nullptr) {
    const int64_t first = index_at(p.of, p.of.cu_q, b);
    p.dout = p.dout.from_row<T>(first), p.dlse = p.dlse.from_row<float>(first), p.dq = p.dq.from_row<T>(first);
  }
  if (p.of.cu_k != nullptr) {
    const int64_t first = index_at(p.of, p.of.cu_k, b);
    p.dk = p.dk.from_row<T>(first), p.dv = p.dv.from_row<T>(first);
  }
  p.of = of_entry<T>(p.of, b);
  return p;
}

// Columns lane_id(), lane_id() + 32, ... of a row of a result.
struct ColumnSums {
  static constexpr int kColumns = kMostColumns / 32;
  float sum[kColumns] = {};

  // Adds weight[n] times row n of a tile. `row_at(n)`: the address of its first column.
  template <class RowAt>
  __device__ void add(const int64_t* rows, const float* weight, RowAt row_at, int64_t stride, int dim) {
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      const int column = lane_id() + 32 * n;
      if (column >= dim) break;
      for (int other = 0; other < kTile; ++other) {
        if (rows[other] >= 0) sum[n] = fma(weight[other], load(row_at(rows[other]) + column * stride), sum[n]);
      }
    }
  }
  template <class T>
  __device__ void write(T* to, int64_t stride, float scale, int dim) const {
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      const int column = lane_id() + 32 * n;
      if (column < dim) store(to + column * stride, sum[n] * scale);
    }
  }
};

// The warp copies a row to shared memory.
template <class T>
__device__ void load_own(float* to, const T* from, int64_t stride, int dim) {
  for (int column = lane_id(); column < dim; column += 32) to[column] = load(from + column * stride);
}

// The sum of own[n] times element n of a row.
template <class T>
__device__ float dot(const float* own, const T* other, int64_t stride, int dim) {
  float sum = 0;
  for (int n = 0; n < dim; ++n) sum = fma(own[n], load(other + n * stride), sum);
  return sum;
}

struct Pair {
  float p, a;
};

// P and dA of a query and a key that it sees, from q.k, dO.v, and the query's LSE and D.
__device__ inline Pair pair_of(const SelectedParams& p, float product, float gradient, float lse, float delta) {
  float score = product * p.scale, slope = 1.0f;
  if (p.inverse_cap != 0) {
    const float t = tanh(score * p.inverse_cap);
    score = p.softcap * t;
    slope = fma(-t, t, 1.0f);
  }
  const float weight = ex2((score - lse) * kLog2e);
  return {weight, weight * (gradient - delta) * slope};
}

template <class T>
__global__ void delta_kernel(const __grid_constant__ GradientParams call) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + warp_id();
  if (row >= call.rows) return;  // the whole warp returns
  const int64_t heads = call.of.heads_kv * call.of.group, i = row % call.longest, h = row / call.longest % heads,
                b = row / call.longest / heads;
  const GradientParams p = of_entry<T>(call, b);
  const SelectedParams& of = p.of;
  if (i >= of.seq_q) return;  // the whole warp returns
  float sum = 0;
  if (end_of_keys(of, b, i) > 0) {
    const T *o = of.o.at<T>(b, h, i), *dout = p.dout.at<T>(b, h, i);
    for (int column = lane_id(); column < of.dim_v; column += 32)
      sum = fma(load(dout + column * p.dout.stride[3]), load(o + column * of.o.stride[3]), sum);
    sum = warp_sum(sum);
    if (p.dlse.data != nullptr) sum -= *p.dlse.at<float>(b, h, i);
  }
  if (lane_id() == 0) p.delta[row] = sum;
}

// dQ of one query head. The list is in shared memory.
template <class T>
__device__ void walk_list(const GradientParams& p, const GradientShared& shared, int64_t b, int64_t g,
                          int64_t h, int64_t i, int64_t end) {
  const SelectedParams& of = p.of;
  float lse = 0, delta = 0;
  if (end > 0) {
    load_own(shared.q, of.q.at<T>(b, h, i), of.q.stride[3], of.dim_qk);
    load_own(shared.y, p.dout.at<T>(b, h, i), p.dout.stride[3], of.dim_v);
    lse = *of.lse.at<float>(b, h, i);
    delta = p.delta[(b * of.heads_kv * of.group + h) * p.longest + i];
  }
  syncwarp();
  ColumnSums dq;
  for (int64_t place = 0; place < of.select * of.span; place += kTile) {
    const int64_t key = key_at(of, shared, place + lane_id(), end);
    if (ballot(key >= 0) == 0) continue;  // all lanes continue
    shared.key[lane_id()] = key;
    if (key >= 0) {
      const float product = dot(shared.q, of.k.at<T>(b, g, key), of.k.stride[3], of.dim_qk);
      const float gradient = dot(shared.y, of.v.at<T>(b, g, key), of.v.stride[3], of.dim_v);
      shared.a[lane_id()] = pair_of(of, product, gradient, lse, delta).a;
    }
    syncwarp();
    dq.add(shared.key, shared.a, [&](int64_t row) { return of.k.at<T>(b, g, row); }, of.k.stride[3], of.dim_qk);
    syncwarp();
  }
  dq.write(p.dq.at<T>(b, h, i), p.dq.stride[3], of.scale, of.dim_qk);
}

template <class T>
__global__ void dq_kernel(const __grid_constant__ GradientParams call) {
  SharedArena arena;
  const GradientShared shared(arena, call.of.select);
  const int64_t block = blockIdx.x, head = block / call.longest;
  const int64_t i = block % call.longest, g = head % call.of.heads_kv, b = head / call.of.heads_kv;
  const GradientParams p = of_entry<T>(call, b);
  const SelectedParams& of = p.of;
  const bool there = i < of.seq_q;  // a query that the entry lacks gets a list without blocks
  const int64_t end = there ? end_of_keys(of, b, i) : 0;
  load_list(of, shared, b, g, i, end);
  for (int n = thread_id(); n < of.select; n += kThreads) p.lists[block * of.select + n] = shared.list[n];
  for (int64_t h = g * of.group + warp_id(); there && h < (g + 1) * of.group; h += kWarps)
    walk_list<T>(p, shared, b, g, h, i, end);
}

// No list names a block twice, so the lanes of a step write to different places.
[[maybe_unused]] static __global__ void invert_kernel(const __grid_constant__ GradientParams p) {
  const int64_t head = blockIdx.x, places = p.of.seq_q * p.of.select;
  const int32_t* lists = p.lists + head * places;
  int32_t *queries = p.queries + head * places, *starts = p.starts + head * (p.blocks + 1);
  for (int64_t c = lane_id(); c <= p.blocks; c += 32) starts[c] = 0;
  syncwarp();
  for (int64_t i = 0; i < p.of.seq_q; ++i) {
    for (int64_t n = lane_id(); n < p.of.select; n += 32) {
      const int32_t c = lists[i * p.of.select + n];
      if (c >= 0) ++starts[c + 1];
    }
    syncwarp();
  }
  if (lane_id() == 0) {
    int32_t before = 0;
    for (int64_t c = 1; c <= p.blocks; ++c) {
      const int32_t count = starts[c];
      starts[c] = before;
      before += count;
    }
  }
  syncwarp();
  // starts[c + 1] is the place of the next query of block c. At the end the queries of block c + 1 begin there.
  for (int64_t i = 0; i < p.of.seq_q; ++i) {
    for (int64_t n = lane_id(); n < p.of.select; n += 32) {
      const int32_t c = lists[i * p.of.select + n];
      if (c >= 0) queries[starts[c + 1]++] = static_cast<int32_t>(i);
    }
    syncwarp();
  }
}

template <class T>
__global__ void dkdv_kernel(const __grid_constant__ GradientParams call) {
  SharedArena arena;
  const GradientShared shared(arena, 0);
  const int64_t key = static_cast<int64_t>(blockIdx.x) * kWarps + warp_id();
  if (key >= call.keys) return;  // the whole warp returns
  const int64_t j = key % call.of.seq_k, head = key / call.of.seq_k, g = head % call.of.heads_kv,
                b = head / call.of.heads_kv;
  const GradientParams p = of_entry<T>(call, b);
  const SelectedParams& of = p.of;
  if (j >= of.seq_k) return;  // the whole warp returns
  const int32_t* starts = p.starts + head * (p.blocks + 1) + j / of.block;
  const int32_t* queries = p.queries + head * p.longest * of.select + starts[0];
  const int64_t pairs = static_cast<int64_t>(starts[1] - starts[0]) * of.group;
  if (pairs > 0) {
    load_own(shared.q, of.k.at<T>(b, g, j), of.k.stride[3], of.dim_qk);
    load_own(shared.y, of.v.at<T>(b, g, j), of.v.stride[3], of.dim_v);
  }
  syncwarp();
  ColumnSums dk, dv;
  for (int64_t first = 0; first < pairs; first += kTile) {
    const int64_t n = first + lane_id();
    const int64_t i = n < pairs ? queries[n / of.group] : 0, h = g * of.group + n % of.group;
    const bool seen = n < pairs && j < end_of_keys(of, b, i);
    shared.key[lane_id()] = seen ? h * of.seq_q + i : -1;
    if (seen) {
      const float product = dot(shared.q, of.q.at<T>(b, h, i), of.q.stride[3], of.dim_qk);
      const float gradient = dot(shared.y, p.dout.at<T>(b, h, i), p.dout.stride[3], of.dim_v);
      const float delta = p.delta[(b * of.heads_kv * of.group + h) * p.longest + i];
      const Pair pair = pair_of(of, product, gradient, *of.lse.at<float>(b, h, i), delta);
      shared.a[lane_id()] = pair.a;
      shared.weight[lane_id()] = pair.p;
    }
    syncwarp();
    dk.add(
        shared.key, shared.a, [&](int64_t row) { return of.q.at<T>(b, row / of.seq_q, row % of.seq_q); },
        of.q.stride[3], of.dim_qk);
    dv.add(
        shared.key, shared.weight, [&](int64_t row) { return p.dout.at<T>(b, row / of.seq_q, row % of.seq_q); },
        p.dout.stride[3], of.dim_v);
    syncwarp();
  }
  dk.write(p.dk.at<T>(b, g, j), p.dk.stride[3], of.scale, of.dim_qk);
  dv.write(p.dv.at<T>(b, g, j), p.dv.stride[3], 1.0f, of.dim_v);
}

}  // namespace attn::nsa
