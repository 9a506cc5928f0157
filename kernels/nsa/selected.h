// Attention of a query over the keys of listed blocks (ATTN_FEATURE_SELECTED). A block of threads takes one query of
// one KV head, and each of its warps takes query heads of the group in turn.
//
//   load_list    loads the list to shared memory. An index becomes -1 if it names no block, a block without a key that
//                the query sees, or a block that an earlier index names
//   attend       one warp per query head: walks over the list in tiles of 32 keys. For the scores each lane has a key;
//                for O each lane has columns
//
// A tile is 32 consecutive places of the list: place n is key n % span of the block that index n / span names.
// Scores and sums are fp32. The softmax is online: the maximum may grow from tile to tile.
#pragma once

#include "kernels/forward/params.h"
#include "kernels/primitives/barrier.h"
#include "kernels/primitives/math.h"
#include "kernels/primitives/shared.h"
#include "kernels/primitives/types.h"
#include "kernels/primitives/warp.h"

namespace attn::nsa {

inline constexpr int kWarps = 4;
inline constexpr int kThreads = 32 * kWarps;
inline constexpr int kTile = 32;          // keys of a tile, one per lane
inline constexpr int kMostColumns = 256;  // of Q, K, V
inline constexpr int64_t kMostSelect = 4096;

struct SelectedParams {
  Strided q, k, v, o, lse, indices;
  const void* key_lengths;  // nullptr: all seq_k
  const void *cu_q, *cu_k;  // nullptr: that side is dense
  int64_t heads_kv, seq_q, seq_k, block;
  int64_t span;  // places of the list per index: the keys of a block, but no more than seq_k
  int32_t select, group, dim_qk, dim_v;
  bool narrow;  // indices, key_lengths, cu_q and cu_k hold int32_t
  bool causal, bottom_right;
  float scale, softcap, inverse_cap;  // inverse_cap 0: there is no cap
};

__device__ inline float load(const F16* from) { return to_float(*from); }
__device__ inline float load(const BF16* from) { return to_float(*from); }
__device__ inline float load(const float* from) { return *from; }

template <class T>
__device__ void store(T* to, float value) {
  *to = from_float<T>(value);
}
__device__ inline void store(float* to, float value) { *to = value; }

__device__ inline int64_t index_at(const SelectedParams& p, const void* array, int64_t n) {
  return p.narrow ? static_cast<const int32_t*>(array)[n] : static_cast<const int64_t*>(array)[n];
}

// The parameters for batch entry b, as if its rows were dense (ATTN_FEATURE_RAGGED): row 0 of a tensor is the entry's
// first query or key, and seq_q and seq_k are the numbers of its rows. Without packed rows nothing changes.
template <class T>
__device__ SelectedParams of_entry(SelectedParams p, int64_t b) {
  if (p.cu_q != nullptr) {
    const int64_t first = index_at(p, p.cu_q, b);
    p.seq_q = index_at(p, p.cu_q, b + 1) - first;
    p.q = p.q.from_row<T>(first), p.o = p.o.from_row<T>(first), p.lse = p.lse.from_row<float>(first);
    p.indices = p.narrow ? p.indices.from_row<int32_t>(first) : p.indices.from_row<int64_t>(first);
  }
  if (p.cu_k != nullptr) {
    const int64_t first = index_at(p, p.cu_k, b);
    p.seq_k = index_at(p, p.cu_k, b + 1) - first;
    p.k = p.k.from_row<T>(first), p.v = p.v.from_row<T>(first);
    p.span = p.seq_k < 1 ? 1 : p.seq_k < p.block ? p.seq_k : p.block;
  }
  return p;
}

// The end of the keys that query i may see, by length and causal order.
__device__ inline int64_t end_of_keys(const SelectedParams& p, int64_t b, int64_t i) {
  int64_t keys = p.seq_k;
  if (p.key_lengths != nullptr) {
    const int64_t length = index_at(p, p.key_lengths, b);
    keys = length < 0 ? 0 : length < keys ? length : keys;
  }
  const int64_t diagonal = p.bottom_right ? i + keys - p.seq_q : i;
  return p.causal && diagonal + 1 < keys ? diagonal + 1 : keys;
}

// The shared memory of a block of threads: the list, and for each warp a query and the keys of a tile with
// their weights.
struct Shared {
  int32_t *raw, *list;
  float *q, *weight;
  int64_t* key;

  __device__ Shared(SharedArena& arena, int32_t select)
      : raw(arena.carve<int32_t>(static_cast<size_t>(select))),
        list(arena.carve<int32_t>(static_cast<size_t>(select))),
        q(arena.carve<float>(kWarps * kMostColumns) + warp_id() * kMostColumns),
        weight(arena.carve<float>(kWarps * kTile) + warp_id() * kTile),
        key(arena.carve<int64_t>(kWarps * kTile) + warp_id() * kTile) {}

  static size_t bytes(int64_t select) {
    return 2 * shared_bytes<int32_t>(static_cast<size_t>(select)) + shared_bytes<float>(kWarps * kMostColumns) +
           shared_bytes<float>(kWarps * kTile) + shared_bytes<int64_t>(kWarps * kTile);
  }
};

template <class Shared>
__device__ void load_list(const SelectedParams& p, const Shared& shared, int64_t b, int64_t g, int64_t i, int64_t end) {
  const int64_t first = b * p.indices.stride[0] + g * p.indices.stride[1] + i * p.indices.stride[2];
  const int threads = static_cast<int>(blockDim.x);
  for (int n = thread_id(); n < p.select; n += threads) {
    const int64_t index = end <= 0 ? -1 : index_at(p, p.indices.data, first + n * p.indices.stride[3]);
    shared.raw[n] = index >= 0 && index <= (end - 1) / p.block ? static_cast<int32_t>(index) : -1;
  }
  cta_sync();
  for (int n = thread_id(); n < p.select; n += threads) {
    const int32_t index = shared.raw[n];
    bool again = false;
    for (int earlier = 0; earlier < n; ++earlier) again = again || shared.raw[earlier] == index;
    shared.list[n] = again ? -1 : index;
  }
  cta_sync();
}

// Key n of a block in the list; -1 if the query sees no such key. `block`: the index, or -1.
__device__ inline int64_t key_of(const SelectedParams& p, int32_t block, int64_t n, int64_t end) {
  const int64_t key = block < 0 ? -1 : block * p.block + n;
  return key < end ? key : -1;
}

// The key at a place of the list; -1 if the query sees no key there.
template <class Shared>
__device__ int64_t key_at(const SelectedParams& p, const Shared& shared, int64_t place, int64_t end) {
  const int64_t n = place / p.span;
  return n < p.select ? key_of(p, shared.list[n], place % p.span, end) : -1;
}

// The score of the warp's query and a key, times log2 e. It is never -inf, which marks hidden keys.
template <class T>
__device__ float score_of(const SelectedParams& p, const Shared& shared, const T* k) {
  float product = 0;
  for (int t = 0; t < p.dim_qk; ++t) product = fma(shared.q[t], load(k + t * p.k.stride[3]), product);
  float score = product * p.scale;
  if (p.inverse_cap != 0) score = p.softcap * tanh(score * p.inverse_cap);
  score *= kLog2e;
  return score == neg_inf() ? lowest() : score;
}

template <class T>
__device__ void attend(const SelectedParams& p, const Shared& shared, int64_t b, int64_t g, int64_t h, int64_t i,
                       int64_t end) {
  constexpr int kColumns = kMostColumns / 32;  // of a lane
  const T* q = p.q.at<T>(b, h, i);
  for (int t = lane_id(); t < p.dim_qk && end > 0; t += 32) shared.q[t] = load(q + t * p.q.stride[3]);
  syncwarp();
  float largest = neg_inf(), sum = 0, out[kColumns] = {};
  for (int64_t place = 0; place < p.select * p.span; place += kTile) {
    const int64_t key = key_at(p, shared, place + lane_id(), end);
    if (ballot(key >= 0) == 0) continue;  // all lanes continue
    const float score = key >= 0 ? score_of<T>(p, shared, p.k.at<T>(b, g, key)) : neg_inf();
    const float before = largest;
    largest = fmax(largest, warp_max(score));
    const float factor = ex2(before - largest), weight = key >= 0 ? ex2(score - largest) : 0.0f;
    sum = fma(sum, factor, warp_sum(weight));
    shared.key[lane_id()] = key;
    shared.weight[lane_id()] = weight;
    syncwarp();
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      const int column = lane_id() + 32 * n;
      if (column >= p.dim_v) break;
      out[n] *= factor;
      for (int other = 0; other < kTile; ++other) {
        if (shared.key[other] < 0) continue;
        const T* v = p.v.at<T>(b, g, shared.key[other]);
        out[n] = fma(shared.weight[other], load(v + column * p.v.stride[3]), out[n]);
      }
    }
    syncwarp();
  }
  const bool dead = sum == 0;  // a row with a key has a weight of 1
  const float inverse = dead ? 0.0f : rcp(sum);
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
    const int column = lane_id() + 32 * n;
    if (column < p.dim_v) store(p.o.at<T>(b, h, i) + column * p.o.stride[3], out[n] * inverse);
  }
  if (lane_id() == 0 && p.lse.data != nullptr)
    *p.lse.at<float>(b, h, i) = dead ? neg_inf() : (largest + lg2(sum)) * kLn2;
  syncwarp();
}

template <class T>
__global__ void selected_kernel(const __grid_constant__ SelectedParams call) {
  SharedArena arena;
  const Shared shared(arena, call.select);
  const int64_t block = blockIdx.x;
  const int64_t i = block % call.seq_q, g = block / call.seq_q % call.heads_kv, b = block / call.seq_q / call.heads_kv;
  const SelectedParams p = of_entry<T>(call, b);
  if (i >= p.seq_q) return;  // the whole block returns
  const int64_t end = end_of_keys(p, b, i);
  load_list(p, shared, b, g, i, end);
  for (int64_t h = g * p.group + warp_id(); h < (g + 1) * p.group; h += kWarps) attend<T>(p, shared, b, g, h, i, end);
}

}  // namespace attn::nsa
