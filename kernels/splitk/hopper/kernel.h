// Split-K on sm_90a for few queries: a persistent block of a warpgroup that computes
// and a warp that loads; the rows of a tile are all queries of all heads of one KV head.
//
//   loader     K(t), V(t) to the next slots, as they become empty; the next item's at once
//   computing  S = Q K(first)'
//              each tile t: softmax(S), P = S, O *= alpha
//                           O += P V(t) | S = Q K(t+1)'     both on their way, and done
//
// There is little to compute, and most rows of a tile are empty: two blocks a
// multiprocessor keep its loads going, and the work on a tile is kept short.
#pragma once

#include "kernels/forward/clear_rows.h"
#include "kernels/forward/ring.h"
#include "kernels/primitives/barrier.h"
#include "kernels/primitives/copy.h"
#include "kernels/primitives/dependent.h"
#include "kernels/primitives/probe.h"
#include "kernels/primitives/shared.h"
#include "kernels/primitives/warpgroup.h"
#include "kernels/primitives/wgmma.h"
#include "kernels/splitk/hopper/params.h"
#include "kernels/splitk/hopper/store.h"

namespace attn {

// full: the loader's copies have come. empty: the slot's tile is read.
template <class T, DecodeSpec kSpec>
struct DecodePipeline {
  using Q = PanelTile<T, DecodeSpec::kTileQ, kSpec.dim>;
  using KV = PanelTile<T, kSpec.tile_k, kSpec.dim>;

  Q q;
  T *k_tiles, *v_tiles;
  Mbarrier *k_full, *k_empty, *v_full, *v_empty;

  __device__ __forceinline__ KV k(int slot) const { return {k_tiles + slot * (kSpec.tile_k * kSpec.dim)}; }
  __device__ __forceinline__ KV v(int slot) const { return {v_tiles + slot * (kSpec.tile_k * kSpec.dim)}; }
};

template <class T, DecodeSpec kSpec>
__device__ __forceinline__ DecodePipeline<T, kSpec> decode_pipeline() {
  SharedArena arena;
  DecodePipeline<T, kSpec> pipe;
  pipe.q = {arena.template carve<T>(DecodeSpec::kTileQ * kSpec.dim, 1024)};
  pipe.k_tiles = arena.template carve<T>(kSpec.stages * kSpec.tile_k * kSpec.dim, 1024);
  pipe.v_tiles = arena.template carve<T>(kSpec.stages * kSpec.tile_k * kSpec.dim, 1024);
  Mbarrier* bars = arena.template carve<Mbarrier>(kSpec.barriers());
  pipe.k_full = bars;
  pipe.k_empty = bars + kSpec.stages;
  pipe.v_full = bars + 2 * kSpec.stages;
  pipe.v_empty = bars + 3 * kSpec.stages;
  return pipe;
}

// Named barriers: of the computing warpgroup, and of its first meeting with the loader's
// warp, which does not wait there.
inline constexpr int kOwnBarrier = 1, kReadyBarrier = 2;

// A tile's panels, once its slot is empty. Rows beyond the tensor come as zeros.
template <class Tile>
__device__ __forceinline__ void load_tile_of_keys(Tile tile, const TensorMap& map, Mbarrier* full,
                                                  Mbarrier* empty, uint32_t phase, const Part& part,
                                                  int32_t first_key) {
  mbarrier_wait(empty, phase ^ 1);
  mbarrier_expect(full, Tile::kBytes);
#pragma unroll
  for (int n = 0; n < Tile::D / kBoxColumns; ++n)
    tma_load_once(tile.panel(n), map, full, {{n * kBoxColumns, first_key, part.kv_head, part.b}});
}

// The loader: one thread that keeps the slots full. The barriers are its own work, so
// that it need not wait for anybody before its first loads.
template <class T, DecodeSpec kSpec>
__device__ __forceinline__ void load_keys(const DecodeParams& p, const DecodePipeline<T, kSpec>& pipe) {
  grid_dependency_wait();
  Ring<kSpec.stages> at;
  for (uint32_t item = blockIdx.x; item < p.items; item += gridDim.x) {
    const Part part = part_of<kSpec.tile_k>(p, item);
    for (int32_t t = part.tiles.begin; t < part.tiles.end; ++t) {
      load_tile_of_keys(pipe.k(at.slot), p.k, pipe.k_full + at.slot, pipe.k_empty + at.slot, at.phase, part,
                        t * kSpec.tile_k);
      load_tile_of_keys(pipe.v(at.slot), p.v, pipe.v_full + at.slot, pipe.v_empty + at.slot, at.phase, part,
                        t * kSpec.tile_k);
      at = at.next();
    }
  }
}

// The computing warpgroup brings an item's queries. What there is not becomes zeros:
// columns each time, rows past the last `before` the first item only.
template <class T, class Q>
__device__ __forceinline__ void stage_queries(const DecodeParams& p, const Part& part, Q tile, bool before) {
  const ForwardParams& f = p.forward;
  const int rows = before ? Q::kRows : p.rows;
  for (int i = thread_id(); i < rows * (Q::D / 8); i += kWarpgroup) {
    const uint32_t row = i / (Q::D / 8), column = i % (Q::D / 8) * 8;
    const bool there = static_cast<int32_t>(row) < p.rows && static_cast<int32_t>(column) < f.dim_qk;
    const uint32_t query = row / p.packed, head = part.kv_head * p.packed + row - query * p.packed;
    const T* source = there ? f.q.at<const T>(part.b, head, query) + column : nullptr;
    cp_async16(tile.at(static_cast<int>(row), static_cast<int>(column)), source, there);
  }
  cp_commit();
  cp_wait<0>();
  fence_proxy_async();
  if (before) {
    bar_sync(kReadyBarrier, DecodeSpec::kThreads);
  } else {
    bar_sync(kOwnBarrier, kWarpgroup);
  }
}

// The computing warpgroup. R: rows that a thread has in use; 1 where there are 8 at most.
template <class T, DecodeSpec kSpec, int R>
__device__ __forceinline__ void decode(const DecodeParams& p, const DecodePipeline<T, kSpec>& pipe) {
  grid_dependency_wait();
  const bool leader = thread_id() == 0;
  const int my_row = warp_id() * 16 + lane_id() / 4;
  Ring<kSpec.stages> at;
  for (uint32_t item = blockIdx.x; item < p.items; item += gridDim.x) {
    const Part part = part_of<kSpec.tile_k>(p, item);
    const bool before = item == blockIdx.x;
    if (!before) bar_sync(kOwnBarrier, kWarpgroup);  // all have done with the queries of the last
    stage_queries<T>(p, part, pipe.q, before);
    if (before) grid_dependents_start();
    const Keys rows[2] = {query_keys(p, part.length, my_row / p.packed),
                          query_keys(p, part.length, (my_row + 8) / p.packed)};
    const void* biases[R];
    BiasWords<R, kSpec.tile_k / 8> words;
    if constexpr (kSpec.scored) {
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const uint32_t row = my_row + 8 * r < p.rows ? my_row + 8 * r : p.rows - 1, query = row / p.packed;
        biases[r] = bias_row(p.terms, part.b, part.kv_head * p.packed + row - query * p.packed, query);
      }
      load_biases(p.terms, biases, part.tiles.begin * kSpec.tile_k, words);
    }
    const TileProbe probe(p.forward.probe, item, warp_id());
    probe.rows([&](int r, float(&place)[3]) { place_of(p, part, my_row + 8 * r, place); });
    RowState<kSpec.dim> state;
    float s[kSpec.tile_k / 8][4];
    uint32_t probabilities[kSpec.tile_k / 16][4] = {};
    // S = Q K' is put on its way.
    const auto start_scores = [&](const Ring<kSpec.stages>& where) {
      mbarrier_wait(pipe.k_full + where.slot, where.phase);
      wgmma_pin(s);
      wgmma_fence();
      wgmma_abt(s, pipe.q, 0, pipe.k(where.slot));
      wgmma_commit();
    };
    // One tile, whose scores are there; the next one's follow if there is one.
    const auto step = [&]<bool kMore>(int32_t t) {
      const Ring<kSpec.stages> after = at.next();
      float alpha[2];
      if constexpr (kSpec.scored) {
        change_scores(p.terms, biases, t * kSpec.tile_k, words, s);
        if constexpr (kMore) load_biases(p.terms, biases, (t + 1) * kSpec.tile_k, words);
      }
      if (t < part.plain.begin || t >= part.plain.end) mask_scores<R>(p, rows, t * kSpec.tile_k, s);
      probe.scores(t, s);
      softmax_of_tile<R>(s, p.sigma, state, alpha);
      pack_probabilities<T>(s, probabilities);
      // Rows that are not in use as well: else ptxas gives up the pipelining.
      if constexpr (R == 1) alpha[1] = alpha[0];
      probe.maxima(t, state.mu, alpha, s);
      rescale(state, alpha);
      mbarrier_wait(pipe.v_full + at.slot, at.phase);
      const int32_t left = part.length - t * kSpec.tile_k;
      if (!kMore && left < kSpec.tile_k) {
        clear_rows(pipe.v(at.slot), left, thread_id(), kWarpgroup);
        bar_sync(kOwnBarrier, kWarpgroup);
      }
      wgmma_pin(state.o);
      wgmma_pin(probabilities);
      wgmma_fence();
      wgmma_pv(state.o, probabilities, pipe.v(at.slot));
      wgmma_commit();
      if constexpr (kMore) start_scores(after);
      wgmma_wait<0>();
      wgmma_pin(state.o);
      wgmma_pin(probabilities);
      wgmma_pin(s);
      probe.output(t, state.o);
      mbarrier_arrive(pipe.v_empty + at.slot, leader);
      if constexpr (kMore) mbarrier_arrive(pipe.k_empty + after.slot, leader);
      at = after;
    };
    int32_t t = part.tiles.begin;
    if (t < part.tiles.end) {
      start_scores(at);
      wgmma_wait<0>();
      wgmma_pin(s);
      mbarrier_arrive(pipe.k_empty + at.slot, leader);
      for (; t + 1 < part.tiles.end; ++t) step.template operator()<true>(t);
      step.template operator()<false>(t);
    }
    store_part<T, R>(p, part, my_row, state);
  }
}

// With a bias, two rows a thread take the registers of two blocks.
template <class T, class Shape, int R>
__global__ void __launch_bounds__(DecodeSpec::kThreads,
                                  R == 2 && Shape::kSpec.scored ? 1 : Shape::kSpec.blocks_per_sm)
    splitk_decode_kernel(const __grid_constant__ DecodeParams p) {
  if constexpr (kHasWarpgroups) {
    constexpr DecodeSpec kSpec = Shape::kSpec;
    const DecodePipeline<T, kSpec> pipe = decode_pipeline<T, kSpec>();
    if (warpgroup_id() == 0) {
      decode<T, kSpec, R>(p, pipe);
    } else {
      const bool loader = elect_one();
      if (loader) {
        tma_prefetch(p.k);
        tma_prefetch(p.v);
        for (int n = 0; n < kSpec.barriers(); ++n) mbarrier_init(pipe.k_full + n, 1);
        mbarrier_init_fence();
      }
      syncwarp();
      bar_arrive(kReadyBarrier, DecodeSpec::kThreads);
      if (loader) load_keys(p, pipe);
    }
  }
}

}  // namespace attn
