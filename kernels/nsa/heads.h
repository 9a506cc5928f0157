// Attention over listed blocks on tensor cores, for 16-bit inputs. All query heads of a group see the same keys, so a
// warp takes 16 heads of one query as the rows of its products. A block of threads has one to four warps, which share
// the tiles of K and V. A tile is 32 consecutive places of the list, at least one with a key. Asynchronous copies gather
// its rows.
//
//   step n:  issue V(n) | wait K(n) | S = Q K(n)' | issue K(n+1) | softmax | wait V(n) | O += P V(n)
//
// Places without a key are rows of zeros in the tiles, and their scores are -inf. P is rounded to the inputs' format.
#pragma once

#include "kernels/forward/online_softmax.h"
#include "kernels/forward/scores.h"
#include "kernels/forward/tile_loader.h"
#include "kernels/nsa/selected.h"
#include "kernels/primitives/copy.h"
#include "kernels/primitives/matrix.h"

namespace attn::nsa {

// The compile-time shape of an instantiation. Tiles have room for kDim columns.
template <class T_, int kDim_, int kWarps_>
struct HeadsShape {
  using T = T_;
  static constexpr int kDim = kDim_, kWarps = kWarps_, kHeads = 16 * kWarps, kThreads = 32 * kWarps;
  static constexpr size_t kTileAlign = 1024;

  static size_t bytes(int64_t select) {
    return shared_bytes<T>((kHeads + 2 * kTile) * kDim, kTileAlign) + 2 * shared_bytes<int64_t>(kTile) +
           2 * shared_bytes<int32_t>(static_cast<size_t>(select));
  }
};

struct HeadsParams {
  SelectedParams of;
  int64_t tiles;  // blocks of threads for the heads of a group
  bool async_q, async_k, async_v;  // 16-byte copies are possible
};

// The shared memory of a block of threads: tiles of Q, K and V, the keys of this tile and of the next, and the list.
template <class Shape>
struct HeadsShared {
  using Tile = SharedTile<typename Shape::T, Shape::kDim>;
  Tile q, k, v;
  int64_t *even, *odd;
  int32_t *raw, *list;

  __device__ HeadsShared(SharedArena& arena, int32_t select)
      : q{arena.carve<typename Shape::T>(Shape::kHeads * Shape::kDim, Shape::kTileAlign)},
        k{arena.carve<typename Shape::T>(kTile * Shape::kDim, Shape::kTileAlign)},
        v{arena.carve<typename Shape::T>(kTile * Shape::kDim, Shape::kTileAlign)},
        even(arena.carve<int64_t>(kTile)),
        odd(arena.carve<int64_t>(kTile)),
        raw(arena.carve<int32_t>(static_cast<size_t>(select))),
        list(arena.carve<int32_t>(static_cast<size_t>(select))) {}
};

// A lane's walk over the places of a list, 32 at a time, from place `first` on. The next tile begins `step` places
// further. All lanes of a warp walk together.
template <class Shared>
class ListWalk {
 public:
  __device__ ListWalk(const SelectedParams& p, const Shared& shared, int64_t end, int first = 0, int step = kTile)
      : p_(p),
        shared_(shared),
        end_(end),
        indices_(step / p.span),
        keys_(step % p.span),
        index_((first + lane_id()) / p.span),
        offset_((first + lane_id()) % p.span) {}

  // The next tile with a key: this lane's key (-1: none), and a bit for each lane that has one. After the last tile, live
  // is 0.
  struct Tile {
    int64_t key;
    uint32_t live;
  };
  __device__ Tile next() {
    while (ballot(index_ < p_.select) != 0) {
      const int64_t key = index_ < p_.select ? key_of(p_, shared_.list[index_], offset_, end_) : -1;
      index_ += indices_, offset_ += keys_;
      if (offset_ >= p_.span) ++index_, offset_ -= p_.span;
      const uint32_t live = ballot(key >= 0);
      if (live != 0) return {key, live};
    }
    return {-1, 0};
  }

 private:
  const SelectedParams& p_;
  const Shared& shared_;
  const int64_t end_, indices_, keys_;  // a step is indices_ indices and keys_ keys of a block
  int64_t index_, offset_;              // of the next place
};

// Starts to load the rows of K or V at `keys`. `async`: 16-byte copies are possible. Then a thread copies one column of
// chunks, so that it computes few addresses.
template <int kThreads, class T, int D>
__device__ void load_keys(SharedTile<T, D> tile, const Strided& tensor, const int64_t* keys, int64_t b, int64_t g, int dim,
                          bool async) {
  if (!async) {
    const auto row_at = [&](int r) -> const T* { return keys[r] < 0 ? nullptr : tensor.at<const T>(b, g, keys[r]); };
    return load_tile<kTile>(tile, row_at, dim, tensor.stride[3], false);
  }
  constexpr int kChunks = D / 8, kStep = kThreads / kChunks;  // rows that the threads load at once
  static_assert(kThreads % kChunks == 0 && kTile % kStep == 0);
  const int column = thread_id() % kChunks * 8;
  const T* const from = tensor.at<const T>(b, g, 0) + column;
#pragma unroll 4
  for (int r = thread_id() / kChunks; r < kTile; r += kStep) {
    const bool valid = keys[r] >= 0 && column < dim;
    cp_async16(tile.at(r, column), valid ? from + keys[r] * tensor.stride[2] : nullptr, valid);
  }
}

// Turns the products with a tile's keys into exponents of two, by the steps of score_of(). Places without a key get -inf.
__device__ inline void make_exponents(const SelectedParams& p, uint32_t live, float (&s)[kTile / 8][4]) {
  TileScores<kTile> tile = {s, {}, {}};
  tile.each([&](int, int, float product) { return product * p.scale; });
  if (p.inverse_cap != 0) tile.each([&](int, int, float score) { return p.softcap * tanh(score * p.inverse_cap); });
  tile.each([&](int, int j, float score) { return (live >> j & 1) != 0 ? exponent_of(score) : neg_inf(); });
}

// A block of threads computes query i of batch entry b, for the heads of KV head g from `first` on. The query may see the
// keys below `end`.
struct HeadsPlace {
  int64_t b, g, i, first, end;

  __device__ int64_t past(const SelectedParams& p) const { return (g + 1) * p.group; }
};

// Walks over the list. Every thread of the block must call this.
template <class Shape>
__device__ void attend_heads(const HeadsParams& params, const HeadsShared<Shape>& shared, const HeadsPlace& at,
                             RowState<Shape::kDim>& state) {
  using T = typename Shape::T;
  const SelectedParams& p = params.of;
  ListWalk walk(p, shared, at.end);
  auto tile = walk.next();
  if (tile.live == 0) return;
  const auto keys_of = [&](int n) { return n % 2 != 0 ? shared.odd : shared.even; };
  if (warp_id() == 0) shared.even[lane_id()] = tile.key;
  cta_sync();

  const auto query_at = [&](int r) -> const T* {
    return at.first + r < at.past(p) ? p.q.at<const T>(at.b, at.first + r, at.i) : nullptr;
  };
  load_tile<Shape::kHeads>(shared.q, query_at, p.dim_qk, p.q.stride[3], params.async_q);
  load_keys<Shape::kThreads>(shared.k, p.k, shared.even, at.b, at.g, p.dim_qk, params.async_k);
  cp_commit();
  const int k_extent = (p.dim_qk + 15) / 16 * 16, n_extent = (p.dim_v + 15) / 16 * 16;
  for (int n = 0; tile.live != 0; ++n) {
    load_keys<Shape::kThreads>(shared.v, p.v, keys_of(n), at.b, at.g, p.dim_v, params.async_v);
    cp_commit();
    cp_wait<1>();
    cta_sync();

    float s[kTile / 8][4] = {};
    mma_abt<kTile>(s, shared.q, 16 * warp_id(), shared.k, k_extent);
    const auto next = walk.next();
    if (warp_id() == 0) keys_of(n + 1)[lane_id()] = next.key;
    cta_sync();
    if (next.live != 0) load_keys<Shape::kThreads>(shared.k, p.k, keys_of(n + 1), at.b, at.g, p.dim_qk, params.async_k);
    cp_commit();

    make_exponents(p, tile.live, s);
    float alpha[2];
    online_softmax<kTile>(s, 1.0f, state, alpha);
    uint32_t probabilities[kTile / 16][4];
    pack_probabilities<T>(s, probabilities);
    cp_wait<1>();
    cta_sync();
    mma_pb<kTile>(state.o, probabilities, shared.v, n_extent);
    cta_sync();  // the next step overwrites V
    tile = next;
  }
}

// Stores O and LSE of the thread's two heads.
template <class Shape>
__device__ void store_heads(const SelectedParams& p, const HeadsPlace& at, RowState<Shape::kDim>& state) {
  using T = typename Shape::T;
  RowResult result[2];
  finish(state, result);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int64_t h = at.first + 16 * warp_id() + lane_id() / 4 + 8 * r;
    if (h >= at.past(p)) continue;
    if (lane_id() % 4 == 0 && p.lse.data != nullptr) *p.lse.at<float>(at.b, h, at.i) = result[r].lse;
    T* const o = p.o.at<T>(at.b, h, at.i);
#pragma unroll
    for (int n = 0; n < Shape::kDim / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int column = 8 * n + 2 * (lane_id() % 4) + e;
        // A dead row must be set to 0, not multiplied by 0: its accumulator may hold NaN.
        if (column < p.dim_v)
          store(o + column * p.o.stride[3], result[r].dead ? 0.0f : state.o[n][2 * r + e] * result[r].inverse);
      }
    }
  }
}

template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads) heads_kernel(const __grid_constant__ HeadsParams call) {
  SharedArena arena;
  const HeadsShared<Shape> shared(arena, call.of.select);
  int64_t block = blockIdx.x;
  const int64_t tile = block % call.tiles;
  block /= call.tiles;
  const int64_t i = block % call.of.seq_q, g = block / call.of.seq_q % call.of.heads_kv,
                b = block / call.of.seq_q / call.of.heads_kv;
  HeadsParams p = call;
  p.of = of_entry<typename Shape::T>(call.of, b);
  if (i >= p.of.seq_q) return;  // the whole block returns
  const HeadsPlace at = {b, g, i, g * p.of.group + tile * Shape::kHeads, end_of_keys(p.of, b, i)};
  load_list(p.of, shared, b, g, i, at.end);
  RowState<Shape::kDim> state;
  attend_heads<Shape>(p, shared, at, state);
  store_heads<Shape>(p.of, at, state);
}

}  // namespace attn::nsa
