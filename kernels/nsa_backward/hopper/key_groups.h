// dK and dV on wgmma (sm_90a). A block of threads is a warpgroup with the 64 keys of a tile. It walks over the
// pairs of a query and a head of its item (key_items.h), 64 at a time, and the products run while its threads
// compute:
//
//   wait for Q, dO | barrier
//   S' = K Q^T, dP' = V dO^T     issued; then the loads of the next Q, dO
//   P' = e^(S' - LSE)            while dP' runs
//   dV += P' dO                  issued
//   dA' = P' (dP' - D)           while dV runs
//   dK += dA' Q                  issued and waited for
//
// A soft cap is not taken: its code would spill registers.
#pragma once

#include "kernels/nsa_backward/key_items.h"
#include "kernels/primitives/warpgroup.h"
#include "kernels/primitives/wgmma.h"

namespace attn::nsa {

template <class T_, int kDim_>
struct GroupShape {
  using T = T_;
  static constexpr int kDim = kDim_, kRows = 64;  // kRows: pairs of a step
  using Tile = PanelTile<T, kRows, kDim>;
  static_assert(kRows == kKeyTile, "tiles of keys and of pairs have one type");

  static constexpr size_t bytes() {
    return shared_bytes<T>(6 * kRows * kDim, 1024) + RowTable<T, kRows>::bytes() + shared_bytes<KeyPlace<T>>(1);
  }
};

template <class Shape>
struct GroupShared {
  using T = typename Shape::T;
  using Tile = typename Shape::Tile;
  T* tiles;  // K, V, and Q and dO of two steps
  RowTable<T, Shape::kRows> rows;

  __device__ explicit GroupShared(SharedArena& arena)
      : tiles(arena.carve<T>(6 * Shape::kRows * Shape::kDim, 1024)), rows(arena) {}

  __device__ Tile tile(int n) const { return {tiles + n * (Shape::kRows * Shape::kDim)}; }
  __device__ Tile k() const { return tile(0); }
  __device__ Tile v() const { return tile(1); }
  __device__ Tile q(int step) const { return tile(2 + step % 2); }
  __device__ Tile dout(int step) const { return tile(4 + step % 2); }
};

template <class Shape>
class KeyGroup {
 public:
  using T = typename Shape::T;

  __device__ __forceinline__ KeyGroup(const MmaParams& p, const KeyPlace<T>& at,
                                      const GroupShared<Shape>& shared)
      : p_(p), at_(at), shared_(shared) {}

  __device__ __forceinline__ void run() {
    clear(dk_);
    clear(dv_);
    if (at_.rows > 0) walk();
    store_sums(p_, at_, dk_, dv_, 16 * warp_id(), 0);
  }

 private:
  static constexpr int kRows = Shape::kRows, kDim = Shape::kDim;
  using Tile = typename Shape::Tile;
  using Fragments = uint32_t[kRows / 16][4];

  __device__ __forceinline__ void walk() {
    const int steps = (at_.rows + kRows - 1) / kRows;
    NextRow<T, kRows> next(p_, at_);
    const bool has_row = warp_id() < kRows / 32;
    if (has_row) next.begin(shared_.rows);
    load_tile_keys<kDim>(p_, at_, shared_.k(), shared_.v());
    cta_sync();
    load_step<kDim>(p_, shared_.rows, 0, shared_.q(0), shared_.dout(0));
    cp_commit();
    for (int step = 0; step < steps; ++step) {
      cp_wait<0>();
      fence_proxy_async();
      cta_sync();
      Products<1, kRows / 8> s, g;
      start(s[0], shared_.k(), shared_.q(step));
      start(g[0], shared_.v(), shared_.dout(step));
      if (step + 1 < steps)
        load_step<kDim>(p_, shared_.rows, step + 1, shared_.q(step + 1), shared_.dout(step + 1));
      cp_commit();
      if (has_row) next.read(step + 2);
      take(step, s[0], g[0]);
      if (has_row) next.store(shared_.rows, step + 2);
    }
  }

  // Turns the products into P' and dA', and adds to dV and dK.
  __device__ __forceinline__ void take(int step, float (&s)[kRows / 8][4], float (&g)[kRows / 8][4]) {
    const int first = shared_.rows.first(step), mine = first + 2 * (lane_id() % 4);
    const bool whole = shared_.rows.whole[first / 32] != 0 && shared_.rows.whole[first / 32 + 1] != 0;
    Fragments weights, slopes;
    wgmma_wait<1>();
    wgmma_pin(s);
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        s[n][e] = weight_of(p_.of.of, s[n][e], shared_.rows.lse[mine + 8 * n + e % 2]);
    }
    if (!whole) hide_pairs(shared_.rows, first, 16 * warp_id(), s);
    backward::pack_rows<T>(s, weights);
    add(dv_[0], weights, shared_.dout(step));

    wgmma_wait<1>();
    wgmma_pin(g);
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) g[n][e] = s[n][e] * (g[n][e] - shared_.rows.delta[mine + 8 * n + e % 2]);
    }
    if (!whole) hide_pairs(shared_.rows, first, 16 * warp_id(), g);
    backward::pack_rows<T>(g, slopes);
    add(dk_[0], slopes, shared_.q(step));
    wgmma_wait<0>();
    wgmma_pin(weights);
    wgmma_pin(slopes);
    wgmma_pin(dv_[0]);
    wgmma_pin(dk_[0]);
  }

  // Issues c = A B^T.
  __device__ __forceinline__ void start(float (&c)[kRows / 8][4], Tile a, Tile b) const {
    wgmma_pin(c);
    wgmma_fence();
    wgmma_abt(c, a, 0, b);
    wgmma_commit();
  }

  // Issues c += P B.
  __device__ __forceinline__ void add(float (&c)[kDim / 8][4], Fragments& p, Tile b) const {
    wgmma_pin(c);
    wgmma_pin(p);
    wgmma_fence();
    wgmma_pv(c, p, b);
    wgmma_commit();
  }

  const MmaParams& p_;
  const KeyPlace<T>& at_;
  const GroupShared<Shape>& shared_;
  Products<1, kDim / 8> dk_, dv_;
};

template <class Shape>
__global__ void __launch_bounds__(kThreads, 2) key_group_kernel(const __grid_constant__ MmaParams p) {
  if constexpr (kHasWarpgroups) {
    KeyPlace<typename Shape::T> at;
    if (!find_place(p, at)) return;  // the whole block returns
    SharedArena arena;
    const GroupShared<Shape> shared(arena);
    KeyGroup<Shape>(p, share_place(arena, at), shared).run();
  } else {
    no_warpgroups();
  }
}

}  // namespace attn::nsa
