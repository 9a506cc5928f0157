// dK and dV on mma. A block of threads walks over the pairs of its item, 32 at a time. Products are transposed:
// S' = K Q^T and dP' = V dO^T have keys as rows, so that the accumulators of P' and dA' already are A
// fragments.
//
// Two warps share 32 keys. Each computes P' and dA' for half of the pairs, and has half of the columns of dK
// and dV:
//
//   wait for Q, dO | barrier | issue the next Q, dO
//   S', dP', P', dA' of 32 keys and 16 pairs   to shared memory, for the other warp
//   dV += P' dO, dK += dA' Q                   for the warp's own pairs
//   barrier | the same for the other's pairs
#pragma once

#include "kernels/nsa_backward/key_items.h"

namespace attn::nsa {

inline constexpr int kRowTile = 32;  // pairs of a step

template <class T_, int kDim_>
struct KeyShape {
  using T = T_;
  static constexpr int kDim = kDim_, kColumns = kDim / 2;  // kColumns: of a warp's dK and dV
  static constexpr size_t bytes() {
    return shared_bytes<T>(2 * kKeyTile * kDim, 1024) + shared_bytes<T>(4 * kRowTile * kDim, 1024) +
           shared_bytes<T>(kKeyTile * 2 * kRowTile, 1024) + RowTable<T, kRowTile>::bytes() +
           shared_bytes<KeyPlace<T>>(1);
  }
};

template <class Shape>
struct KeyShared {
  using T = typename Shape::T;
  using Tile = SharedTile<T, Shape::kDim>;
  using Pairs = SharedTile<T, 2 * kRowTile>;
  Tile k, v;
  T *q, *dout;  // of two steps
  Pairs pairs;  // a row per key: P' of 32 pairs, then dA'
  RowTable<T, kRowTile> rows;

  __device__ explicit KeyShared(SharedArena& arena)
      : k{arena.carve<T>(2 * kKeyTile * Shape::kDim, 1024)},
        v{k.base + kKeyTile * Shape::kDim},
        q(arena.carve<T>(4 * kRowTile * Shape::kDim, 1024)),
        dout(q + 2 * kRowTile * Shape::kDim),
        pairs{arena.carve<T>(kKeyTile * 2 * kRowTile, 1024)},
        rows(arena) {}

  // From row `row` of a step on.
  __device__ Tile of_step(T* tiles, int step, int row = 0) const {
    return {tiles + (step % 2 * kRowTile + row) * Shape::kDim};
  }
};

template <class Shape>
class KeyWalk {
 public:
  using T = typename Shape::T;
  static constexpr int kDim = Shape::kDim, kColumns = Shape::kColumns;

  __device__ KeyWalk(const MmaParams& p, const KeyPlace<T>& at, const KeyShared<Shape>& shared)
      : p_(p), at_(at), shared_(shared), own_(32 * (warp_id() / 2)), part_(warp_id() % 2) {}

  __device__ void run() {
    clear(dk_);
    clear(dv_);
    if (at_.rows > 0) walk();
    store_sums(p_, at_, dk_, dv_, own_, kColumns * part_);
  }

 private:
  __device__ __forceinline__ void walk() {
    const int steps = (at_.rows + kRowTile - 1) / kRowTile;
    NextRow<T, kRowTile> next(p_, at_);
    if (warp_id() == 0) next.begin(shared_.rows);
    load_tile_keys<kDim>(p_, at_, shared_.k, shared_.v);
    cta_sync();
    load(0);
    cp_commit();
    for (int step = 0; step < steps; ++step) {
      cp_wait<0>();
      cta_sync();
      if (step + 1 < steps) load(step + 1);
      cp_commit();
      if (warp_id() == 0) next.read(step + 2);
      uint32_t weights[2][4], slopes[2][4];
      pairs(step, weights, slopes);
      const int row = 16 * part_, other = 16 - row;
      backward::store_fragments(shared_.pairs, own_, row, weights);
      backward::store_fragments(shared_.pairs, own_, kRowTile + row, slopes);
      add(step, row, weights, slopes);
      if (warp_id() == 0) next.store(shared_.rows, step + 2);
      cta_sync();
      ldsm_step(shared_.pairs, own_, other, weights);
      ldsm_step(shared_.pairs, own_, kRowTile + other, slopes);
      add(step, other, weights, slopes);
    }
  }

  // Starts to load Q and dO of a step.
  __device__ __forceinline__ void load(int step) const {
    load_step<kDim>(p_, shared_.rows, step, shared_.of_step(shared_.q, step),
                    shared_.of_step(shared_.dout, step));
  }

  // P' and dA' of the warp's 32 keys and 16 pairs.
  __device__ __forceinline__ void pairs(int step, uint32_t (&weights)[2][4], uint32_t (&slopes)[2][4]) const {
    Products<2, 2> s, g;
    clear(s);
    clear(g);
    mma_abt<16>(s, shared_.k, own_, shared_.of_step(shared_.q, step, 16 * part_));
    mma_abt<16>(g, shared_.v, own_, shared_.of_step(shared_.dout, step, 16 * part_));
    const int first = shared_.rows.first(step) + 16 * part_;
    if (p_.of.of.inverse_cap != 0)
      weigh_pairs<true>(first, s, g);
    else
      weigh_pairs<false>(first, s, g);
    if (shared_.rows.whole[first / 32] == 0) {
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        hide_pairs(shared_.rows, first, own_ + 16 * m, s[m]);
        hide_pairs(shared_.rows, first, own_ + 16 * m, g[m]);
      }
    }
    backward::to_fragments<T>(s, 0, weights);
    backward::to_fragments<T>(g, 0, slopes);
  }

  template <bool kCapped>
  __device__ __forceinline__ void weigh_pairs(int first, Products<2, 2>& s, Products<2, 2>& g) const {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int row = first + 8 * n + 2 * (lane_id() % 4) + e;
        const float lse = shared_.rows.lse[row], delta = shared_.rows.delta[row];
#pragma unroll
        for (int m = 0; m < 2; ++m) {
#pragma unroll
          for (int r = 0; r < 4; r += 2) weigh<kCapped>(p_.of.of, lse, delta, s[m][n][r + e], g[m][n][r + e]);
        }
      }
    }
  }

  // dV += P' dO and dK += dA' Q for 16 pairs of the step, from its row `row` on.
  __device__ __forceinline__ void add(int step, int row, const uint32_t (&weights)[2][4],
                                      const uint32_t (&slopes)[2][4]) {
    mma_pb(dv_, weights, shared_.of_step(shared_.dout, step), row, kColumns * part_);
    mma_pb(dk_, slopes, shared_.of_step(shared_.q, step), row, kColumns * part_);
  }

  const MmaParams& p_;
  const KeyPlace<T>& at_;
  const KeyShared<Shape>& shared_;
  const int own_, part_;  // the warp's first key; which half of the pairs and columns it has
  Products<2, kColumns / 8> dk_, dv_;
};

template <class Shape>
__global__ void __launch_bounds__(kThreads, 2) key_kernel(const __grid_constant__ MmaParams p) {
  KeyPlace<typename Shape::T> at;
  if (!find_place(p, at)) return;  // the whole block returns
  SharedArena arena;
  const KeyShared<Shape> shared(arena);
  KeyWalk<Shape>(p, share_place(arena, at), shared).run();
}

}  // namespace attn::nsa
