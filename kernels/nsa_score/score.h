// Scores blocks of keys by attention over compressed keys, and chooses blocks by these scores
// (ATTN_FEATURE_NSA_SCORE). A block of threads takes 16 queries of one KV head.
//
//   weigh      for each query head of the group in turn, and 32 compressed keys at a time: the weights
//              P = exp(score - LSE). A warp takes four of the queries; a lane has a key
//   add        each thread adds the weights to its (query, block) pairs, in the order of the keys, times the part of a
//              key's positions that lies in the block
//   make_list  a warp makes the list of each of its queries from their scores (kernels/nsa_select)
//
// The scores of the 16 queries stay in shared memory, in fp32. A score is the sum over heads, and within a head
// over keys, in ascending order, whatever the other queries are.
#pragma once

#include "kernels/nsa_select/select.h"

namespace attn::nsa {

inline constexpr int kQueries = 16;              // of a block of threads
inline constexpr int kRows = kQueries / kWarps;  // queries of a warp

struct ScoreParams {
  SelectParams list;     // its `scores` is a row in shared memory
  Strided written;       // where scores are written; data is nullptr: nowhere
  int64_t blocks;        // columns of scores
  int64_t tiles;         // blocks of threads of one KV head
  int64_t step, offset;  // compressed key c stands for positions c * step, ..., c * step + offset
  float inverse_step;
};

// The shared memory of a block of threads: scores and queries, the weights of a tile, and for each query how
// many positions and how many compressed keys it sees.
struct ScoreShared {
  float *scores, *q, *weight;
  int64_t *end, *keys;

  __device__ ScoreShared(SharedArena& arena, int64_t blocks, int32_t columns)
      : scores(arena.carve<float>(static_cast<size_t>(kQueries * blocks))),
        q(arena.carve<float>(static_cast<size_t>(kQueries * columns))),
        weight(arena.carve<float>(kQueries * kTile)),
        end(arena.carve<int64_t>(kQueries)),
        keys(arena.carve<int64_t>(kQueries)) {}

  static size_t bytes(int64_t blocks, int64_t columns) {
    return shared_bytes<float>(static_cast<size_t>(kQueries * blocks)) +
           shared_bytes<float>(static_cast<size_t>(kQueries * columns)) +
           shared_bytes<float>(kQueries * kTile) + 2 * shared_bytes<int64_t>(kQueries);
  }
};

__device__ inline int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }
__device__ inline int64_t most_of(int64_t a, int64_t b) { return a > b ? a : b; }

// The number of compressed keys whose last position is below `end`.
__device__ inline int64_t keys_below(const ScoreParams& p, int64_t end) {
  return end <= p.offset ? 0 : (end - p.offset - 1) / p.step + 1;
}

// The parameters for batch entry b (kernels/nsa/selected.h). Lengths now count positions.
template <class T>
__device__ ScoreParams of_entry(ScoreParams p, int64_t b) {
  SelectedParams& of = p.list.of;
  if (of.cu_q != nullptr) p.written = p.written.from_row<float>(index_at(of, of.cu_q, b));
  of = of_entry<T>(of, b);
  of.seq_k = of.seq_k * p.step + p.offset;
  return p;
}

// Loads the queries of head h. A query that sees no key is not read.
template <class T>
__device__ void load_queries(const ScoreParams& p, const ScoreShared& shared, int64_t b, int64_t h,
                             int64_t first) {
  const SelectedParams& of = p.list.of;
  for (int n = thread_id(); n < kQueries * of.dim_qk; n += kThreads) {
    const int r = n / of.dim_qk, t = n % of.dim_qk;
    shared.q[n] = shared.keys[r] > 0 ? load(of.q.at<T>(b, h, first + r) + t * of.q.stride[3]) : 0.0f;
  }
}

// Computes the weights of 32 keys from key c on, in head h. They are 0 for a key that a query does not see.
template <class T>
__device__ void weigh(const ScoreParams& p, const ScoreShared& shared, int64_t b, int64_t g, int64_t h,
                      int64_t first, int64_t c) {
  const SelectedParams& of = p.list.of;
  const int64_t key = c + lane_id();
  const int row = warp_id() * kRows;
  float product[kRows] = {};
  bool any = false;
  for (int r = 0; r < kRows; ++r) any = any || key < shared.keys[row + r];
  const T* const k = of.k.at<T>(b, g, any ? key : 0);
  for (int t = 0; any && t < of.dim_qk; ++t) {
    const float value = load(k + t * of.k.stride[3]);
#pragma unroll
    for (int r = 0; r < kRows; ++r) product[r] = fma(shared.q[(row + r) * of.dim_qk + t], value, product[r]);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    float weight = 0;
    if (key < shared.keys[row + r]) {
      const float lse = *of.lse.at<float>(b, h, first + row + r);
      weight = ex2((product[r] * of.scale - lse) * kLog2e);
    }
    shared.weight[(row + r) * kTile + lane_id()] = weight;
  }
}

// Adds the weights of 32 keys from key c on to the scores of the blocks that the keys overlap.
__device__ inline void add(const ScoreParams& p, const ScoreShared& shared, int64_t c, int64_t end) {
  const int64_t size = p.list.of.block, last_key = least_of(c + kTile, end) - 1;
  const int64_t first = c * p.step / size, last = (last_key * p.step + p.offset) / size,
                count = last - first + 1;
  for (int64_t n = thread_id(); n < kQueries * count; n += kThreads) {
    const int64_t r = n / count, j = first + n % count, begins = j * size, ends = begins + size;
    // The keys c with c * step + offset >= begins and c * step < ends.
    const int64_t from = begins <= p.offset ? 0 : (begins - p.offset - 1) / p.step + 1,
                  to = (ends - 1) / p.step;
    float score = shared.scores[r * p.blocks + j];
    for (int64_t key = most_of(from, c); key <= least_of(to, last_key); ++key) {
      const int64_t common = least_of(key * p.step + p.offset + 1, ends) - most_of(key * p.step, begins);
      score = fma(static_cast<float>(common) * p.inverse_step, shared.weight[r * kTile + key - c], score);
    }
    shared.scores[r * p.blocks + j] = score;
  }
}

// Writes the scores of candidates, and 0 for all other blocks.
__device__ inline void write_scores(const ScoreParams& p, const float* scores, int64_t count, int64_t b,
                                    int64_t g, int64_t i) {
  float* const to = p.written.at<float>(b, g, i);
  for (int64_t j = lane_id(); j < p.blocks; j += 32) to[j * p.written.stride[3]] = j < count ? scores[j] : 0.0f;
}

// Turns NaN into -infinity. The order of blocks must be one even if inputs are not finite: ranks that NaN makes
// equal would give a list more blocks than it has room for.
__device__ inline void order_nan(float* scores, int64_t count) {
  for (int64_t j = lane_id(); j < count; j += 32) scores[j] = scores[j] == scores[j] ? scores[j] : neg_inf();
  syncwarp();
}

template <class T>
__global__ void score_kernel(const __grid_constant__ ScoreParams call) {
  const int64_t block = blockIdx.x;
  const int64_t first = block % call.tiles * kQueries, g = block / call.tiles % call.list.of.heads_kv,
                b = block / call.tiles / call.list.of.heads_kv;
  const ScoreParams p = of_entry<T>(call, b);
  const SelectedParams& of = p.list.of;
  if (first >= of.seq_q) return;  // the whole block returns
  SharedArena arena;
  const ScoreShared shared(arena, p.blocks, of.dim_qk);
  for (int64_t n = thread_id(); n < kQueries * p.blocks; n += kThreads) shared.scores[n] = 0;
  if (thread_id() < kQueries) {
    const int64_t i = first + thread_id(), end = i < of.seq_q ? end_of_keys(of, b, i) : 0;
    shared.end[thread_id()] = most_of(end, 0);
    shared.keys[thread_id()] = keys_below(p, end);
  }
  cta_sync();
  int64_t keys = 0;  // that any of the queries sees
  for (int r = 0; r < kQueries; ++r) keys = most_of(keys, shared.keys[r]);
  for (int64_t h = g * of.group; h < (g + 1) * of.group; ++h) {
    load_queries<T>(p, shared, b, h, first);
    cta_sync();
    for (int64_t c = 0; c < keys; c += kTile) {
      weigh<T>(p, shared, b, g, h, first, c);
      cta_sync();
      add(p, shared, c, keys);
      cta_sync();
    }
  }
  for (int r = warp_id() * kRows; r < (warp_id() + 1) * kRows; ++r) {
    const int64_t i = first + r, end = shared.end[r];
    if (i >= of.seq_q) break;  // the whole warp leaves
    const int64_t count = end == 0 ? 0 : (end - 1) / of.block + 1;
    float* const scores = shared.scores + r * p.blocks;
    if (p.written.data != nullptr) write_scores(p, scores, count, b, g, i);
    order_nan(scores, count);
    make_list(p.list, scores, count, b, g, i);
  }
}

}  // namespace attn::nsa
