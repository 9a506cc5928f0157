// The three warpgroups that compute. All have the same 64 rows. One computes the scores and the softmax, and each of the
// other two 256 columns of O.
//
//   scores                                      O
//   Q to shared memory                          the first two tiles, Q to shared memory
//   for each tile t:                            for each tile t:
//     S = Q K(t)'
//     softmax(S), P = S
//     send P and alpha           ----------->     take P and alpha
//                                                 O *= alpha
//                                                 O += P V(t)
//                                                 load tile t + 2 into the slot of tile t
//   send the factors of the rows ----------->   take the factors
//   LSE to the workspace or to the output       O to the workspace or to the output
//
// S of a tile is computed while O takes in the tile before it. P has the same place in the registers of all: thread n of
// a warpgroup takes what thread n of the first one has sent.
#pragma once

#include "kernels/forward/clear_rows.h"
#include "kernels/primitives/copy.h"
#include "kernels/primitives/dependent.h"
#include "kernels/primitives/probe.h"
#include "kernels/forward/ring.h"
#include "kernels/splitk/hopper/latent/finish.h"
#include "kernels/splitk/hopper/latent/load.h"

namespace attn {

inline constexpr int kLatentColumns = LatentSpec::kHalf, kLatentProducts = LatentSpec::kTileK / 16;
using LatentWords = uint32_t[kLatentProducts][4];

// Copies an item's queries to shared memory. Rows past the last and missing columns become zeros. All threads call this;
// a warp copies a row at a time.
template <class T>
__device__ __forceinline__ void stage_latent_queries(const DecodeParams& p, const LatentPart& mine,
                                                     typename LatentPipeline<T>::Q tile) {
  const ForwardParams& f = p.forward;
  for (int row = warp_id(); row < tile.kRows; row += LatentSpec::kThreads / 32) {
    const uint32_t of_head = static_cast<uint32_t>(mine.first_row + row), query = of_head / p.packed;
    const uint32_t head = mine.part.kv_head * p.packed + of_head - query * p.packed;
    const bool exists = mine.first_row + row < p.rows;
    const T* source = exists ? f.q.at<const T>(mine.part.b, head, query) : nullptr;
    for (int column = 8 * lane_id(); column < tile.D; column += 8 * 32) {
      const bool there = exists && column < f.dim_qk;
      cp_async16(tile.at(row, column), there ? source + column : nullptr, there);
    }
  }
  cp_commit();
  cp_wait<0>();
  fence_proxy_async();
}

// Rescales the accumulators.
__device__ __forceinline__ void rescale_latent(LatentSums& sums, const float (&alpha)[2]) {
#pragma unroll
  for (auto& half : sums.half) {
#pragma unroll
    for (int n = 0; n < LatentSpec::kPart / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) half[n][e] *= alpha[e / 2];
    }
  }
}

// Clears the rows of V past the length, if tile t has any. All threads of the warpgroup call it.
template <class Tile>
__device__ __forceinline__ void clear_latent(Tile values, const Part& part, int32_t t) {
  const int32_t left = part.length - t * LatentSpec::kTileK;
  if (left >= LatentSpec::kTileK) return;
  clear_rows(values, left, thread_id() % kWarpgroup, kWarpgroup);
  bar_sync(kLatentOwn + warpgroup_id(), kWarpgroup);
}

// Messages from the warpgroup of the scores to the other two. There is room for one message. The others say that they have
// taken it, except for the last one, which has no probabilities.
class LatentMessages {
 public:
  template <class T>
  __device__ __forceinline__ explicit LatentMessages(const LatentPipeline<T>& pipe)
      : chunks_(pipe.probabilities), factors_(pipe.factors) {}

  // Sends a factor for each of the thread's two rows, and probabilities, or nullptr with the last message.
  __device__ __forceinline__ void send(const float (&factor)[2], const LatentWords* words) {
    if (!first_) bar_sync(kLatentTaken, kThreads);
    first_ = false;
    if (lane_id() % 4 == 0) {
      factors_[latent_row()] = factor[0];
      factors_[latent_row() + 8] = factor[1];
    }
    if (words != nullptr) {
#pragma unroll
      for (int k = 0; k < kLatentProducts; ++k)
        chunks_[k * kWarpgroup + thread_id()] = {{(*words)[k][0], (*words)[k][1], (*words)[k][2], (*words)[k][3]}};
    }
    bar_arrive(kLatentSent, kThreads);
  }

  __device__ __forceinline__ void take(float (&factor)[2], LatentWords* words) {
    bar_sync(kLatentSent, kThreads);
    factor[0] = factors_[latent_row()];
    factor[1] = factors_[latent_row() + 8];
    if (words == nullptr) return;
#pragma unroll
    for (int k = 0; k < kLatentProducts; ++k) {
      const Chunk chunk = chunks_[k * kWarpgroup + thread_id() % kWarpgroup];
#pragma unroll
      for (int e = 0; e < 4; ++e) (*words)[k][e] = chunk.words[e];
    }
    bar_arrive(kLatentTaken, kThreads);
  }

 private:
  static constexpr int kThreads = 3 * kWarpgroup;
  Chunk* chunks_;
  float* factors_;
  bool first_ = true;
};

// The products of S over the columns of `keys`, which begin at column kColumn of Q. Issues them when the keys are there.
template <int kColumn, class T, class Tile>
__device__ __forceinline__ void add_latent_scores(float (&s)[LatentSpec::kTileK / 8][4],
                                                  typename LatentPipeline<T>::Q queries, Tile keys, Mbarrier* full,
                                                  uint32_t phase) {
  const auto q = WgmmaOperand::of(queries.panel(kColumn / kBoxColumns), 16, 1024);
  const auto k = WgmmaOperand::of(keys.base, 16, 1024);
  mbarrier_wait(full, phase);
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < Tile::D; i += 16) {
    const uint32_t panel = i / kBoxColumns, step = i % kBoxColumns * 2;
    wgmma_ss<T>(s, q.plus(panel * queries.kPanelBytes + step), k.plus(panel * keys.kPanelBytes + step), kColumn + i > 0);
  }
}

// The warpgroup of the scores.
template <class T>
__device__ __forceinline__ void score_latent(const LatentParams& params, const LatentPipeline<T>& pipe) {
  constexpr int kTileK = LatentSpec::kTileK;
  const DecodeParams& p = params.decode;
  const LatentPart mine = begin_latent(params);
  const Part& part = mine.part;
  stage_latent_queries<T>(p, mine, pipe.q);
  bar_sync(kLatentReady, LatentSpec::kThreads);
  grid_dependents_start();
  const int32_t my_row = mine.first_row + latent_row(), packed = static_cast<int32_t>(p.packed);
  const Keys rows[2] = {query_keys(p, part.length, my_row / packed), query_keys(p, part.length, (my_row + 8) / packed)};
  const TileProbe probe(p.forward.probe, blockIdx.x, warp_id());
  probe.rows([&](int r, float(&place)[3]) { place_of(p, part, my_row + 8 * r, place); });
  LatentMessages messages(pipe);
  Ring<LatentSpec::kStages> at;
  RowState<0> state;
  float s[kTileK / 8][4], factor[2];
  for (int32_t t = part.tiles.begin; t < part.tiles.end; ++t) {
    constexpr int kPart = LatentSpec::kPart;
    wgmma_pin(s);
    add_latent_scores<0, T>(s, pipe.q, pipe.quarter(at.slot, 0), pipe.loaded(at.slot, 0), at.phase);
    add_latent_scores<kPart, T>(s, pipe.q, pipe.quarter(at.slot, 1), pipe.loaded(at.slot, 1), at.phase);
    add_latent_scores<2 * kPart, T>(s, pipe.q, pipe.quarter(at.slot, 2), pipe.loaded(at.slot, 2), at.phase);
    add_latent_scores<3 * kPart, T>(s, pipe.q, pipe.last(at.slot), pipe.loaded(at.slot, 3), at.phase);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_pin(s);
    if (t < part.plain.begin || t >= part.plain.end) mask_scores<2>(p, rows, t * kTileK, s);
    probe.scores(t, s);
    softmax_of_tile<2>(s, p.sigma, state, factor);
    probe.maxima(t, state.mu, factor, s);
    LatentWords probabilities;
    pack_probabilities<T>(s, probabilities);
    messages.send(factor, &probabilities);
    at = at.next();
  }
  finish_latent(p, mine, my_row, state, factor);
  messages.send(factor, nullptr);
}

// Writes a warpgroup's columns of O. Its part of the slots is free when all its warps are here; a warp has a quarter of it.
template <class T>
__device__ __forceinline__ void store_latent(const LatentParams& params, const LatentPart& mine,
                                             const LatentPipeline<T>& pipe, int half, const float (&factor)[2],
                                             const LatentSums& sums) {
  const DecodeParams& p = params.decode;
  const int first = half * LatentSpec::kHalf, warp = warp_id() % 4;
  if (!params.by_chunks) return store_latent_pairs<T>(p, mine, first, factor, sums);
  bar_sync(kLatentOwn + warpgroup_id(), kWarpgroup);
  if (mine.first_row + 16 * warp >= p.rows) return;
  T* room = pipe.values(warp / 2, half).base + warp % 2 * (16 * kLatentColumns * sizeof(float) / sizeof(T));
  Chunk* stage = reinterpret_cast<Chunk*>(room);
  if (p.direct) {
    store_latent_rows<T, T>(p, mine, first, factor, sums, stage);
  } else {
    store_latent_rows<T, float>(p, mine, first, factor, sums, stage);
  }
}

// The warpgroup that computes half of the columns of O: those of two parts of the slots.
template <class T>
__device__ __forceinline__ void output_latent(const LatentParams& params, const LatentPipeline<T>& pipe, int half) {
  constexpr int kStages = LatentSpec::kStages;
  const DecodeParams& p = params.decode;
  const int even = 2 * half, odd = even + 1, own = kLatentOwn + warpgroup_id();
  const bool loader = thread_id() % kWarpgroup == 0;
  if (loader) {
    tma_prefetch(p.k);
    for (int n = 0; n < kStages; ++n) {
      mbarrier_init(pipe.loaded(n, even), 1);
      mbarrier_init(pipe.loaded(n, odd), 1);
    }
    mbarrier_init_fence();
  }
  const LatentPart mine = begin_latent(params);
  const Part& part = mine.part;
  if (loader) {
    for (int n = 0; n < kStages && part.tiles.begin + n < part.tiles.end; ++n) {
      load_latent_part(p, pipe, part, part.tiles.begin + n, n, even);
      load_latent_part(p, pipe, part, part.tiles.begin + n, n, odd);
    }
  }
  stage_latent_queries<T>(p, mine, pipe.q);
  bar_sync(kLatentReady, LatentSpec::kThreads);
  const TileProbe probe(p.forward.probe, blockIdx.x, half == 0 ? warp_id() % 4 : 4 + warp_id() % 4);
  LatentMessages messages(pipe);
  Ring<kStages> at;
  LatentSums sums;
  LatentWords probabilities = {};
  float factor[2];
  for (int32_t t = part.tiles.begin; t < part.tiles.end; ++t) {
    messages.take(factor, &probabilities);
    mbarrier_wait(pipe.loaded(at.slot, even), at.phase);
    mbarrier_wait(pipe.loaded(at.slot, odd), at.phase);
    clear_latent(pipe.values(at.slot, half), part, t);
    // The even part is loaded while products with the odd one are under way, if that takes no branch.
    const bool more = t + kStages < part.tiles.end, early = one_latent_box(p);
    const LatentBox box = more && early ? latent_box(p, part, t + kStages) : LatentBox{0, 0};
    rescale_latent(sums, factor);
    wgmma_pin(sums.half[0]);
    wgmma_pin(sums.half[1]);
    wgmma_pin(probabilities);
    wgmma_fence();
    wgmma_pv(sums.half[0], probabilities, pipe.quarter(at.slot, even));
    wgmma_commit();
    wgmma_fence();
    wgmma_pv(sums.half[1], probabilities, pipe.quarter(at.slot, odd));
    wgmma_commit();
    wgmma_wait<1>();
    bar_sync(own, kWarpgroup);  // all warps have read the even part
    load_latent_box(loader && more && early, p, pipe, part.kv_head, box, at.slot, even);
    wgmma_wait<0>();
    wgmma_pin(sums.half[0]);
    wgmma_pin(sums.half[1]);
    wgmma_pin(probabilities);
    bar_sync(own, kWarpgroup);
    if (loader && more) {
      if (!early) load_latent_part(p, pipe, part, t + kStages, at.slot, even);
      load_latent_part(p, pipe, part, t + kStages, at.slot, odd);
    }
    if constexpr (kProbes) {
      if (half == 0) probe.output(t, reinterpret_cast<const float(&)[kLatentColumns / 8][4]>(sums));
    }
    at = at.next();
  }
  messages.take(factor, nullptr);
  store_latent<T>(params, mine, pipe, half, factor, sums);
}

}  // namespace attn
