// dQ on tensor cores. A block of threads has one query of one KV head, and 16 heads of the group as rows:
// S = Q K^T, dP = dO V^T, dQ += dA K. Its four warps share out the list's tiles of 32 places. Each warp has its
// own slots for tiles of K and V, so only the warp waits for them:
//
//   wait for V | dP = dO V^T | issue the next V | wait for K | S = Q K^T, dA, dQ += dA K | issue the next K
//
// At the end the warps' sums are added up in the order of the warps. Places without a key are rows of zeros,
// and their dA is 0, so a key that the query does not see reaches no result.
#pragma once

#include "kernels/nsa_backward/invert.h"

namespace attn::nsa {

template <class T_, int kDim_>
struct QueryShape {
  using T = T_;
  static constexpr int kDim = kDim_, kHeads = 16;
  static constexpr int kPitch = kDim + 8;            // of the warps' sums: four rows lie in different banks
  static constexpr int kSlots = kDim == 64 ? 2 : 1;  // tiles of K and V of a warp
  static constexpr int kOfWarp = kSlots * 2 * kTile * kDim;  // elements of a warp's slots
  static_assert(kHeads * kPitch * sizeof(float) <= kOfWarp * sizeof(T));
  // Q, dO and all slots in one piece, so that little is lost to alignment: at 128 columns, three blocks of
  // threads just fit a multiprocessor.
  static constexpr int kTiles = 2 * kHeads * kDim + kWarps * kOfWarp;
  static constexpr size_t kAlign = 128;

  static size_t bytes(int64_t select) {
    return shared_bytes<T>(kTiles, kAlign) + 2 * shared_bytes<int32_t>(static_cast<size_t>(select));
  }
};

template <class Shape>
struct QueryShared {
  using T = typename Shape::T;
  using Tile = SharedTile<T, Shape::kDim>;
  Tile q, dout;
  T* slots;  // of the warps
  int32_t *raw, *list;

  __device__ QueryShared(SharedArena& arena, int32_t select)
      : q{arena.carve<T>(Shape::kTiles, Shape::kAlign)},
        dout{q.base + Shape::kHeads * Shape::kDim},
        slots(dout.base + Shape::kHeads * Shape::kDim),
        raw(arena.carve<int32_t>(static_cast<size_t>(select))),
        list(arena.carve<int32_t>(static_cast<size_t>(select))) {}

  __device__ Tile k(int slot) const {
    return {slots + warp_id() * Shape::kOfWarp + slot * (2 * kTile * Shape::kDim)};
  }
  __device__ Tile v(int slot) const { return {k(slot).base + kTile * Shape::kDim}; }
  __device__ float* sums(int warp) const { return reinterpret_cast<float*>(slots + warp * Shape::kOfWarp); }
};

// A tile of a list as its warp sees it: this lane's key (-1: none), and a bit for each lane that has one.
// `live` is 0 if there is no tile.
struct ListTile {
  int32_t key;
  uint32_t live;
};

// Starts to load the rows of K or V of a tile. `head` is where the head's keys begin.
template <class T, int D>
__device__ __forceinline__ void load_listed(SharedTile<T, D> tile, const T* head, const Strided& tensor,
                                            const ListTile& of, int dim, bool async) {
  const auto row_at = [&](int r) -> const T* {
    const int32_t key = shfl(of.key, r);
    return key < 0 ? nullptr : head + key * tensor.stride[2];
  };
  gather_rows<kTile, 32, D>(tile, lane_id(), row_at, dim, tensor.stride[3], async);
}

// LSE and D of the thread's two heads; 0 past the last head.
struct SavedRows {
  float lse[2], delta[2];

  __device__ SavedRows(const MmaParams& p, const HeadsPlace& at) {
    const SelectedParams& of = p.of.of;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int64_t h = at.first + lane_id() / 4 + 8 * r;
      const bool there = h < at.past(of);
      lse[r] = there ? *of.lse.at<float>(at.b, h, at.i) : 0.0f;
      delta[r] = there ? p.of.delta[(at.b * of.heads_kv * of.group + h) * p.of.longest + at.i] : 0.0f;
    }
  }
};

// Turns the products of a tile into dA. Places without a key get 0.
template <bool kCapped>
__device__ __forceinline__ void weigh_tile(const SelectedParams& p, const SavedRows& saved, uint32_t live,
                                           Products<1, kTile / 8>& s, Products<1, kTile / 8>& g) {
#pragma unroll
  for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      weigh<kCapped>(p, saved.lse[e / 2], saved.delta[e / 2], s[0][n][e], g[0][n][e]);
      if ((live >> (8 * n + 2 * (lane_id() % 4) + e % 2) & 1) == 0) g[0][n][e] = 0;
    }
  }
}

// Walks over the warp's tiles of the list.
template <class Shape>
__device__ __forceinline__ void walk_tiles(const MmaParams& p, const QueryShared<Shape>& shared,
                                           const HeadsPlace& at, Products<1, Shape::kDim / 8>& dq) {
  using T = typename Shape::T;
  constexpr int kSlots = Shape::kSlots;
  const SelectedParams& of = p.of.of;
  ListWalk walk(of, shared, at.end, kTile * warp_id(), kTile * kWarps);
  const auto next_tile = [&] {
    const auto tile = walk.next();
    return ListTile{static_cast<int32_t>(tile.key), tile.live};
  };
  const T *const k_head = of.k.at<const T>(at.b, at.g, 0), *const v_head = of.v.at<const T>(at.b, at.g, 0);
  // Each commits one group of copies; the group is empty if there is no tile.
  const auto load_v = [&](const ListTile& tile, int slot) {
    if (tile.live != 0) load_listed(shared.v(slot), v_head, of.v, tile, of.dim_v, p.async_v);
    cp_commit();
  };
  const auto load_k = [&](const ListTile& tile, int slot) {
    if (tile.live != 0) load_listed(shared.k(slot), k_head, of.k, tile, of.dim_qk, p.async_k);
    cp_commit();
  };
  ListTile tiles[kSlots];  // this one, and those whose copies are under way
#pragma unroll
  for (int n = 0; n < kSlots; ++n) {
    tiles[n] = next_tile();
    load_v(tiles[n], n);
    load_k(tiles[n], n);
  }
  const SavedRows saved(p, at);
  cp_wait<2 * kSlots>();
  cta_sync();  // Q and dO have arrived
  for (int slot = 0; tiles[0].live != 0; slot = (slot + 1) % kSlots) {
    const ListTile next = next_tile();
    Products<1, kTile / 8> s, g;
    clear(s);
    clear(g);
    cp_wait<2 * kSlots - 1>();
    syncwarp();
    mma_abt<kTile>(g, shared.dout, 0, shared.v(slot));
    syncwarp();
    load_v(next, slot);
    cp_wait<2 * kSlots - 1>();
    syncwarp();
    mma_abt<kTile>(s, shared.q, 0, shared.k(slot));
    if (of.inverse_cap != 0)
      weigh_tile<true>(of, saved, tiles[0].live, s, g);
    else
      weigh_tile<false>(of, saved, tiles[0].live, s, g);
#pragma unroll
    for (int k = 0; k < kTile / 16; ++k) {
      uint32_t a[1][4];
      backward::to_fragments<T>(g, k, a);
      mma_pb(dq, a, shared.k(slot), 16 * k);
    }
    syncwarp();
    load_k(next, slot);
#pragma unroll
    for (int n = 0; n + 1 < kSlots; ++n) tiles[n] = tiles[n + 1];
    tiles[kSlots - 1] = next;
  }
  cp_wait<0>();
}

// Adds up the warps' sums and stores dQ.
template <class Shape>
__device__ __forceinline__ void store_dq(const MmaParams& p, const QueryShared<Shape>& shared,
                                         const HeadsPlace& at, const Products<1, Shape::kDim / 8>& dq) {
  using T = typename Shape::T;
  const SelectedParams& of = p.of.of;
  syncwarp();  // the warp's other lanes have read its last tile
  float* const mine = shared.sums(warp_id()) + lane_id() / 4 * Shape::kPitch + 2 * (lane_id() % 4);
#pragma unroll
  for (int n = 0; n < Shape::kDim / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) mine[e / 2 * 8 * Shape::kPitch + 8 * n + e % 2] = dq[0][n][e];
  }
  cta_sync();
  constexpr int kChunks = Shape::kDim / 8;
  const int column = thread_id() % kChunks * 8;
  for (int row = thread_id() / kChunks; row < Shape::kHeads; row += kThreads / kChunks) {
    const int64_t h = at.first + row;
    if (h >= at.past(of) || column >= of.dim_qk) continue;
    float sum[8] = {};
    for (int warp = 0; warp < kWarps; ++warp) {
      const float* const from = shared.sums(warp) + row * Shape::kPitch + column;
#pragma unroll
      for (int c = 0; c < 8; ++c) sum[c] += from[c];
    }
    T* const to = p.of.dq.template at<T>(at.b, h, at.i) + column * p.of.dq.stride[3];
    if (p.async_dq) {
      Chunk chunk;
#pragma unroll
      for (int n = 0; n < 4; ++n) chunk.words[n] = pack2<T>(sum[2 * n] * of.scale, sum[2 * n + 1] * of.scale);
      *reinterpret_cast<Chunk*>(to) = chunk;
    } else {
      for (int c = 0; c < 8 && column + c < of.dim_qk; ++c)
        store(to + c * p.of.dq.stride[3], sum[c] * of.scale);
    }
  }
}

template <class Shape>
__global__ void __launch_bounds__(kThreads, 3) query_kernel(const __grid_constant__ MmaParams call) {
  using T = typename Shape::T;
  SharedArena arena;
  const QueryShared<Shape> shared(arena, call.of.of.select);
  const int64_t tile = blockIdx.x % call.head_tiles, block = blockIdx.x / call.head_tiles;
  const int64_t i = block % call.of.longest, head = block / call.of.longest, g = head % call.of.of.heads_kv,
                b = head / call.of.of.heads_kv;
  MmaParams p = call;
  p.of = of_entry<T>(call.of, b);
  const SelectedParams& of = p.of.of;
  if (i >= of.seq_q) return;  // the whole block returns
  const HeadsPlace at = {b, g, i, g * of.group + tile * Shape::kHeads, end_of_keys(of, b, i)};
  if (at.end > 0) {
    const auto row_of = [&](const Strided& tensor) {
      return [&](int r) -> const T* {
        return at.first + r < at.past(of) ? tensor.at<const T>(b, at.first + r, i) : nullptr;
      };
    };
    gather_rows<Shape::kHeads, kThreads, Shape::kDim>(shared.q, thread_id(), row_of(of.q), of.dim_qk,
                                                      of.q.stride[3], p.async_q);
    gather_rows<Shape::kHeads, kThreads, Shape::kDim>(shared.dout, thread_id(), row_of(p.of.dout), of.dim_v,
                                                      p.of.dout.stride[3], p.async_dout);
  }
  cp_commit();
  load_list(of, shared, b, g, i, at.end);
  if (tile == 0) mark_list(p, shared, head, i);
  Products<1, Shape::kDim / 8> dq;
  clear(dq);
  walk_tiles<Shape>(p, shared, at, dq);
  store_dq<Shape>(p, shared, at, dq);
}

}  // namespace attn::nsa
