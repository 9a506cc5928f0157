// The consumer: the warpgroup that computes. The rows of its tile are all queries of all heads of one KV head.
//
//   Q to shared memory                         stage_queries()
//   S = Q K(first)'                            walk()
//   for each tile t:                           step()
//     softmax(S), P = S, O *= alpha
//     O += P V(t)  |  S = Q K(t + 1)'          both are issued, and one wait serves both
//   O to the workspace, or to the output       finish.h
//
// There is little to compute, and most rows of a tile are empty. Two blocks per multiprocessor keep loads in
// flight while one of them computes.
#pragma once

#include "kernels/forward/clear_rows.h"
#include "kernels/forward/ring.h"
#include "kernels/primitives/copy.h"
#include "kernels/primitives/dependent.h"
#include "kernels/primitives/probe.h"
#include "kernels/splitk/hopper/finish.h"
#include "kernels/splitk/hopper/layout.h"

namespace attn {

// Copies an item's queries to shared memory, and fills missing columns with zeros. `first`: this is the block's
// first item, so rows past the last are filled with zeros, too. Later items do not write them.
template <class T, class Q>
__device__ __forceinline__ void stage_queries(const DecodeParams& p, const Part& part, Q tile, bool first) {
  const ForwardParams& f = p.forward;
  const int rows = first ? Q::kRows : p.rows;
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
  if (first) {
    bar_sync(kReadyBarrier, DecodeSpec::kThreads);
  } else {
    bar_sync(kOwnBarrier, kWarpgroup);
  }
}

// One item: its tiles, and the registers of its softmax. The members are references to variables of decode(),
// as in kernels/fa1/hopper/consumer.h. R: how many of its two rows a thread uses.
template <class T, DecodeSpec kSpec, int R>
struct DecodeItem {
  const DecodeParams& p;
  const DecodePipeline<T, kSpec>& pipe;
  const Part& part;
  const bool& leader;     // the thread that arrives for the warpgroup
  const Keys (&rows)[2];  // the keys that this thread's rows see
  const void* (&biases)[R];
  BiasWords<R, kSpec.tile_k / 8>& words;
  const TileProbe& probe;
  RowState<kSpec.dim>& state;
  float (&s)[kSpec.tile_k / 8][4];
  uint32_t (&probabilities)[kSpec.tile_k / 16][4];
  Ring<kSpec.stages>& at;  // the slot of the current tile

  // Issues S = Q K'.
  __device__ __forceinline__ void start_scores(const Ring<kSpec.stages>& where) const {
    mbarrier_wait(pipe.k_full + where.slot, where.phase);
    wgmma_pin(s);
    wgmma_fence();
    wgmma_abt(s, pipe.q, 0, pipe.k(where.slot));
    wgmma_commit();
  }

  // Issues O += P V.
  __device__ __forceinline__ void start_output() const {
    wgmma_pin(state.o);
    wgmma_pin(probabilities);
    wgmma_fence();
    wgmma_pv(state.o, probabilities, pipe.v(at.slot));
    wgmma_commit();
  }

  // Subtracts the slope terms. The slopes are read again for each tile, one row after the other: keeping them
  // would cost registers in problems without slopes, too.
  __device__ __forceinline__ void take_slopes(int32_t t) const {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const uint32_t of_thread = warp_id() * 16 + lane_id() / 4 + 8 * r, last = p.rows - 1;
      const uint32_t row = of_thread < last ? of_thread : last, query = row / p.packed;
      const float slope = slope_of(p.forward.slopes, part.b, part.kv_head * p.packed + row - query * p.packed);
      take_slope(r, slope, static_cast<int32_t>(diagonal_of(p.forward, part.length, query)), t * kSpec.tile_k, s);
    }
  }

  // Takes one tile, whose scores are done. kMore: issues the scores of the next tile as well.
  template <bool kMore>
  __device__ __forceinline__ void step(int32_t t) const {
    const Ring<kSpec.stages> after = at.next();
    float alpha[2];
    if constexpr (kSpec.scored) {
      change_scores(p.terms, biases, t * kSpec.tile_k, words, s);
      if constexpr (R == 2) {
        if (p.forward.slopes.data != nullptr) take_slopes(t);
      }
      if constexpr (kMore) load_biases(p.terms, biases, (t + 1) * kSpec.tile_k, words);
    }
    if (t < part.plain.begin || t >= part.plain.end) mask_scores<R>(p, rows, t * kSpec.tile_k, s);
    probe.scores(t, s);
    softmax_of_tile<R>(s, p.sigma, state, alpha);
    pack_probabilities<T>(s, probabilities);
    // Unused rows are rescaled as well: otherwise ptxas does not pipeline the products.
    if constexpr (R == 1) alpha[1] = alpha[0];
    probe.maxima(t, state.mu, alpha, s);
    rescale(state, alpha);
    mbarrier_wait(pipe.v_full + at.slot, at.phase);
    const int32_t left = part.length - t * kSpec.tile_k;
    if (!kMore && left < kSpec.tile_k) {
      clear_rows(pipe.v(at.slot), left, thread_id(), kWarpgroup);
      bar_sync(kOwnBarrier, kWarpgroup);
    }
    start_output();
    if constexpr (kMore) start_scores(after);
    wgmma_wait<0>();
    wgmma_pin(state.o);
    wgmma_pin(probabilities);
    wgmma_pin(s);
    probe.output(t, state.o);
    mbarrier_arrive(pipe.v_empty + at.slot, leader);
    if constexpr (kMore) mbarrier_arrive(pipe.k_empty + after.slot, leader);
    at = after;
  }

  __device__ __forceinline__ void walk() const {
    int32_t t = part.tiles.begin;
    if (t >= part.tiles.end) return;
    start_scores(at);
    wgmma_wait<0>();
    wgmma_pin(s);
    mbarrier_arrive(pipe.k_empty + at.slot, leader);
    for (; t + 1 < part.tiles.end; ++t) step<true>(t);
    step<false>(t);
  }
};

// The consumer. R: how many of its two rows a thread uses; 1 if the tile has at most 8 rows.
template <class T, DecodeSpec kSpec, int R>
__device__ __forceinline__ void decode(const DecodeParams& p, const DecodePipeline<T, kSpec>& pipe) {
  grid_dependency_wait();
  const bool leader = thread_id() == 0;
  const int my_row = warp_id() * 16 + lane_id() / 4;
  Ring<kSpec.stages> at;
  for (uint32_t item = blockIdx.x; item < p.items; item += gridDim.x) {
    const Part part = part_of<kSpec.tile_k>(p, item);
    const bool first = item == blockIdx.x;
    if (!first) bar_sync(kOwnBarrier, kWarpgroup);  // all threads have read the queries of the previous item
    stage_queries<T>(p, part, pipe.q, first);
    if (first) grid_dependents_start();
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
    const DecodeItem<T, kSpec, R> work = {p,     pipe,  part,  leader, rows,          biases,
                                          words, probe, state, s,      probabilities, at};
    work.walk();
    store_part<T, R>(p, part, my_row, state);
  }
}

}  // namespace attn
