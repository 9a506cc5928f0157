// An item is a share of the work for dK and dV. This file finds a block's keys and queries, fills the table of
// pairs, and stores the sums. key_walk.h and hopper/key_groups.h compute the sums.
//
// If a block of keys has one item, its sums are dK and dV. Else they go to the workspace, and sum_kernel adds
// them up in the order of the items.
#pragma once

#include "kernels/nsa_backward/mma_params.h"

namespace attn::nsa {

// A block of threads computes dK and dV of one tile of keys from the pairs of one item.
template <class T>
struct KeyPlace {
  int32_t keys, length;  // keys of the tile, and how many of them are below the key length
  int32_t rows;          // pairs of the item
  bool whole;            // the block of keys has no other item
  const T *k, *v;        // rows of the first key
  T *dk, *dv;
  const T *q, *dout;  // query 0 of the first query head
  const float *lse, *delta;
  const int32_t* queries;  // of the item
  int64_t diagonal;        // if causal, query i sees the keys of the tile below i + diagonal

  // Returns how many keys of the tile query i sees.
  __device__ int32_t end_of(const SelectedParams& p, int64_t i) const {
    const int64_t end = i + diagonal;
    return !p.causal || end > length ? length : end < 0 ? 0 : static_cast<int32_t>(end);
  }
};

// Finds the place of this block of threads. False if it has nothing to compute.
template <class T>
__device__ inline bool find_place(const MmaParams& call, KeyPlace<T>& at) {
  int64_t n = blockIdx.x;
  const int64_t tile = n % call.key_tiles;
  n /= call.key_tiles;
  const int64_t item = n % call.items, head = call.first_head + n / call.items;
  const int32_t* const items = call.first_items + head * (call.of.blocks + 1);
  if (item >= items[call.of.blocks]) return false;
  const int64_t c = call.item_blocks[head * call.items + item];
  const int64_t b = head / call.of.of.heads_kv, g = head % call.of.of.heads_kv;
  const GradientParams p = of_entry<T>(call.of, b);
  SelectedParams of = p.of;
  at.whole = items[c + 1] - items[c] == 1;
  const int64_t first = c * of.block + tile * kKeyTile;
  const int64_t past = (c + 1) * of.block < of.seq_k ? (c + 1) * of.block : of.seq_k;
  if (first >= past) return false;
  at.keys = static_cast<int32_t>(past - first < kKeyTile ? past - first : kKeyTile);
  of.causal = false;
  const int64_t length = end_of_keys(of, b, 0), below = length - first;
  at.length = static_cast<int32_t>(below < 0 ? 0 : below < at.keys ? below : at.keys);
  at.diagonal = (of.bottom_right ? length - of.seq_q : 0) + 1 - first;
  at.k = of.k.at<const T>(b, g, first), at.v = of.v.at<const T>(b, g, first);
  at.dk = p.dk.at<T>(b, g, first), at.dv = p.dv.at<T>(b, g, first);
  const int64_t h = g * of.group;
  at.q = of.q.at<const T>(b, h, 0), at.dout = p.dout.at<const T>(b, h, 0),
  at.lse = of.lse.at<const float>(b, h, 0);
  at.delta = p.delta + (b * of.heads_kv * of.group + h) * p.longest;
  const int32_t* const starts = p.starts + head * (p.blocks + 1) + c;
  const int64_t part = part_of(call, of.seq_q), skipped = (item - items[c]) * part,
                rest = starts[1] - starts[0] - skipped;
  at.queries = p.queries + head * call.places + starts[0] + skipped;
  at.rows = static_cast<int32_t>((rest < part ? rest : part) * of.group);
  return true;
}

// The place in shared memory, where it takes no registers. All threads of the block call it.
template <class T>
__device__ inline const KeyPlace<T>& share_place(SharedArena& arena, const KeyPlace<T>& at) {
  KeyPlace<T>* const shared = arena.carve<KeyPlace<T>>(1);
  if (thread_id() == 0) *shared = at;
  cta_sync();
  return *shared;
}

// The table describes the kRows pairs of a step. It has room for four steps: at step n rows are read for step n + 2,
// whose room no thread has used since step n - 2.
template <class T, int kRows>
struct RowTable {
  static constexpr int kSteps = 4;
  const T **q, **dout;  // where the rows begin; nullptr after the last pair
  float *lse, *delta;
  int32_t* end;    // the query sees the keys of the tile below it
  int32_t* whole;  // one for 32 pairs: not 0 if every query sees all 64 keys

  __device__ explicit RowTable(SharedArena& arena)
      : q(arena.carve<const T*>(kSteps * kRows)),
        dout(arena.carve<const T*>(kSteps * kRows)),
        lse(arena.carve<float>(kSteps * kRows)),
        delta(arena.carve<float>(kSteps * kRows)),
        end(arena.carve<int32_t>(kSteps * kRows)),
        whole(arena.carve<int32_t>(kSteps * kRows / 32)) {}
  static constexpr size_t bytes() {
    return 2 * shared_bytes<const T*>(kSteps * kRows) + 3 * shared_bytes<float>(kSteps * kRows) +
           shared_bytes<int32_t>(kSteps * kRows / 32);
  }
  // The first row of a step.
  __device__ static int first(int step) { return step % kSteps * kRows; }
};

// Fills one row of the table, two steps ahead. read() loads LSE and D and looks up the next query; store()
// writes the row at the end of the step. The first kRows threads of a block have a row each.
template <class T, int kRows>
class NextRow {
 public:
  __device__ NextRow(const MmaParams& p, const KeyPlace<T>& at) : p_(p), at_(at) { look_up(0); }

  // Fills in the table of steps 0 and 1.
  __device__ void begin(const RowTable<T, kRows>& table) {
    for (int step = 0; step < 2; ++step) {
      read(step);
      store(table, step);
    }
  }
  // Reads LSE and D of the pair of a step, and looks up the query of the next step's pair.
  __device__ void read(int step) {
    const SelectedParams& of = p_.of.of;
    query_ = next_;
    lse_ = delta_ = 0;
    if (query_ >= 0) {
      const int64_t head = head_of(step);
      lse_ = at_.lse[head * of.lse.stride[1] + query_ * of.lse.stride[2]];
      delta_ = at_.delta[head * p_.of.longest + query_];
    }
    look_up(step + 1);
  }
  __device__ void store(const RowTable<T, kRows>& table, int step) const {
    const Strided &q = p_.of.of.q, &dout = p_.of.dout;
    const int n = table.first(step) + thread_id();
    const bool there = query_ >= 0;
    const int32_t end = there ? at_.end_of(p_.of.of, query_) : 0;
    const int64_t head = head_of(step);
    table.q[n] = there ? at_.q + head * q.stride[1] + query_ * q.stride[2] : nullptr;
    table.dout[n] = there ? at_.dout + head * dout.stride[1] + query_ * dout.stride[2] : nullptr;
    table.lse[n] = lse_, table.delta[n] = delta_, table.end[n] = end;
    const uint32_t whole = ballot(end == kKeyTile);
    if (lane_id() == 0) table.whole[n / 32] = whole == ~0u;
  }

 private:
  // The thread's pair of a step, as a number in the item. Its head is computed again when it is needed, because
  // registers are scarce.
  __device__ uint32_t pair_of_step(int step) const { return static_cast<uint32_t>(step * kRows + thread_id()); }
  __device__ uint32_t group() const { return static_cast<uint32_t>(p_.of.of.group); }
  __device__ uint32_t head_of(int step) const { return pair_of_step(step) % group(); }
  __device__ void look_up(int step) {
    const uint32_t n = pair_of_step(step);
    next_ = n < static_cast<uint32_t>(at_.rows) ? at_.queries[n / group()] : -1;
  }

  const MmaParams& p_;
  const KeyPlace<T>& at_;
  int32_t query_, next_;  // of the pair that was read, and of the next step's; -1 after the last pair
  float lse_, delta_;
};

// Starts to load the tile's K and V. `Tile` is SharedTile or PanelTile.
template <int kDim, class T, class Tile>
__device__ __forceinline__ void load_tile_keys(const MmaParams& p, const KeyPlace<T>& at, Tile k, Tile v) {
  const SelectedParams& of = p.of.of;
  const auto rows_of = [&](const T* first, const Strided& tensor) {
    return [=, &tensor, &at](int r) { return r < at.length ? first + r * tensor.stride[2] : nullptr; };
  };
  gather_rows<kKeyTile, kThreads, kDim>(k, thread_id(), rows_of(at.k, of.k), of.dim_qk, of.k.stride[3],
                                        p.async_k);
  gather_rows<kKeyTile, kThreads, kDim>(v, thread_id(), rows_of(at.v, of.v), of.dim_v, of.v.stride[3],
                                        p.async_v);
}

// Starts to load Q and dO of a step.
template <int kDim, class T, int kRows, class Tile>
__device__ __forceinline__ void load_step(const MmaParams& p, const RowTable<T, kRows>& rows, int step, Tile q,
                                          Tile dout) {
  const SelectedParams& of = p.of.of;
  const int first = rows.first(step);
  gather_rows<kRows, kThreads, kDim>(
      q, thread_id(), [&](int r) { return rows.q[first + r]; }, of.dim_qk, of.q.stride[3], p.async_q);
  gather_rows<kRows, kThreads, kDim>(
      dout, thread_id(), [&](int r) { return rows.dout[first + r]; }, of.dim_v, p.of.dout.stride[3],
      p.async_dout);
}

// Sets c to 0 for pairs that do not see each other. Rows are the 16 keys from `key` on, columns the pairs of
// the table from `first` on.
template <class T, int kRows, int N>
__device__ __forceinline__ void hide_pairs(const RowTable<T, kRows>& rows, int first, int key,
                                           float (&c)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int32_t end = rows.end[first + 8 * n + 2 * (lane_id() % 4) + e % 2];
      if (key + 8 * (e / 2) + lane_id() / 4 >= end) c[n][e] = 0;
    }
  }
}

// Calls take(key, column, sum) for each sum of a warp, whose first one is (row, column), if the key and the
// column exist. Keys from the key length on get 0, because their sums may contain the NaN of a query.
template <class T, int M, int N, class Take>
__device__ __forceinline__ void each_sum(const KeyPlace<T>& at, const float (&c)[M][N][4], int row, int column,
                                         int dim, Take take) {
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int key = row + 16 * m + 8 * (e / 2) + lane_id() / 4,
                  to = column + 8 * n + 2 * (lane_id() % 4) + e % 2;
        if (key < at.keys && to < dim) take(key, to, key < at.length ? c[m][n][e] : 0.0f);
      }
    }
  }
}

// Stores a warp's sums of dK and dV, whose first one is (row, column).
template <class T, int M, int N>
__device__ __forceinline__ void store_sums(const MmaParams& p, const KeyPlace<T>& at,
                                           const float (&dk)[M][N][4], const float (&dv)[M][N][4], int row,
                                           int column) {
  const SelectedParams& of = p.of.of;
  if (at.whole) {
    const auto store_to = [](T* first, const Strided& tensor, float scale) {
      return [=, &tensor](int key, int c, float sum) {
        store(first + key * tensor.stride[2] + c * tensor.stride[3], sum * scale);
      };
    };
    each_sum(at, dk, row, column, of.dim_qk, store_to(at.dk, p.of.dk, of.scale));
    each_sum(at, dv, row, column, of.dim_v, store_to(at.dv, p.of.dv, 1.0f));
    return;
  }
  const int64_t pitch = of.dim_qk + of.dim_v;
  float* const sums = p.sums + blockIdx.x * p.keys * pitch;
  each_sum(at, dk, row, column, of.dim_qk, [=](int key, int c, float sum) { sums[key * pitch + c] = sum; });
  float* const of_v = sums + of.dim_qk;
  each_sum(at, dv, row, column, of.dim_v, [=](int key, int c, float sum) { of_v[key * pitch + c] = sum; });
}

// Adds up the sums of blocks with several items. A block of threads has kSumKeys keys of a tile.
inline constexpr int kSumKeys = 8;

template <class T>
__global__ void sum_kernel(const __grid_constant__ MmaParams call) {
  const int64_t parts = (call.keys + kSumKeys - 1) / kSumKeys, first_key = blockIdx.x % parts * kSumKeys;
  int64_t n = blockIdx.x / parts;
  const int64_t tile = n % call.key_tiles;
  n /= call.key_tiles;
  const int64_t c = n % call.of.blocks, of_launch = n / call.of.blocks, head = call.first_head + of_launch,
                b = head / call.of.of.heads_kv, g = head % call.of.of.heads_kv;
  const int32_t* const items = call.first_items + head * (call.of.blocks + 1) + c;
  const int64_t count = items[1] - items[0];
  if (count <= 1) return;  // the whole block returns
  const GradientParams p = of_entry<T>(call.of, b);
  const SelectedParams& of = p.of;
  const int64_t pitch = of.dim_qk + of.dim_v, of_item = call.key_tiles * call.keys * pitch;
  const float* const sums = call.sums +
                            ((of_launch * call.items + items[0]) * call.key_tiles + tile) * call.keys * pitch +
                            first_key * pitch;
  const int64_t key = c * of.block + tile * kKeyTile + first_key;
  for (int64_t place = thread_id(); place < kSumKeys * pitch; place += kThreads) {
    const int64_t row = place / pitch, j = key + row, column = place % pitch;
    if (first_key + row >= call.keys || j >= of.seq_k || j >= (c + 1) * of.block) return;
    float sum = 0;
    for (int64_t item = 0; item < count; ++item) sum += sums[item * of_item + place];
    if (column < of.dim_qk)
      store(p.dk.at<T>(b, g, j) + column * p.dk.stride[3], sum * of.scale);
    else
      store(p.dv.at<T>(b, g, j) + (column - of.dim_qk) * p.dv.stride[3], sum);
  }
}

}  // namespace attn::nsa
