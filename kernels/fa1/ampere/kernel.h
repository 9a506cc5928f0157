// FA-1 on mma.m16n8k16 and cp.async: one block for each query tile. A warp owns one or more groups of 16 rows.
//
// A block walks tiles of keys from the last to the first, so that masked tiles come first under a causal mask.
// One step takes tile t:
//
//   wait for K(t), V(t) | barrier | start to load K(t-1), V(t-1) | S = Q K(t)' | maxima, O *= alpha
//   for each 16 keys: P = 2^(sigma S - mu) of the next 16 | O += P V
//
// sigma is scale * log2 e, and mu is sigma times the running maximum of the row (softmax.h). A bias in 16-byte
// chunks is loaded together with K and V. If all rows see all keys of a tile, and its scores need nothing but
// such a bias, the tile runs a shorter step (score_products<true>).
//
// There is room for two tiles of K and of V. After the barrier, the copies of all threads have arrived, and all
// warps have read tile t + 1. Tile t - 1 takes its place. Between barriers warps drift apart: one multiplies
// while another computes exponentials.
#pragma once

#include "kernels/fa1/ampere/load.h"
#include "kernels/fa1/ampere/mask.h"
#include "kernels/fa1/ampere/probe.h"
#include "kernels/fa1/ampere/scores.h"
#include "kernels/fa1/ampere/store.h"
#include "kernels/primitives/barrier.h"
#include "kernels/primitives/matrix_rows.h"
#include "kernels/primitives/shared.h"

namespace attn {

// Turns the products of a scored tile into exponents. kRough: the tile needs only a bias in chunks, which was
// loaded with K and V; its exponents are rough, and settle_tile() corrects those that matter. Otherwise, if a
// tile is left (`more`), a bias that is loaded number by number starts to load for it here.
template <bool kRough, AmpereSpec kSpec, int N>
__device__ __forceinline__ void score_products(const AmpereParams& p, const AmpereBlock& block, bool more,
                                               const BiasTile<kSpec>& biases, int32_t t,
                                               float (&s)[kSpec.groups][N][4]) {
  if constexpr (kRough) {
    add_rough(p, biases, t, s);
  } else {
    score_tile(p, biases, t, s);
    slope_tile<kSpec>(p, block, t, s);
    if (more) biases.load_after(p, block, t);
  }
}

// O += P V, 16 keys at a time. The exponentials of the next 16 keys are computed while a product runs.
template <class T, int M, int N, int D>
__device__ __forceinline__ void add_output(float (&o)[M][D][4], float (&s)[M][N][4], float sigma,
                                           SoftmaxRows<M>& rows, SharedTile<T, 8 * D> values) {
  uint32_t probabilities[2][M][4];
  make_probabilities<T>(s, 0, sigma, rows, probabilities[0]);
#pragma unroll
  for (int k = 0; k < N / 2; ++k) {
    if (k + 1 < N / 2) make_probabilities<T>(s, k + 1, sigma, rows, probabilities[(k + 1) % 2]);
    mma_pb(o, probabilities[k % 2], values, 16 * k);
  }
}

template <class T, AmpereSpec kSpec>
__device__ __forceinline__ void attend_rows(const AmpereParams& p) {
  constexpr int kGroups = kSpec.groups, kDim = kSpec.dim, kTileK = kSpec.tile_k;
  using Tile = SharedTile<T, kDim>;
  SharedArena arena;
  const Tile q{arena.template carve<T>(kSpec.tile_q() * kDim, 1024)};
  const Tile k_tiles{arena.template carve<T>(2 * kTileK * kDim, 1024)};
  const Tile v_tiles{arena.template carve<T>(2 * kTileK * kDim, 1024)};
  [[maybe_unused]] uint32_t* const bias_room =
      kSpec.scored ? arena.template carve<uint32_t>(kSpec.tile_q() * kTileK, 16) : nullptr;
  const auto slot = [](Tile of, int32_t t) { return Tile{of.base + (t & 1) * (kTileK * kDim)}; };

  const AmpereBlock block = block_of<kSpec>(p);
  const Keys tiles = live_tiles<kSpec>(p, block), plain = plain_tiles<kSpec>(p, block, tiles);
  const int warp_row = warp_id() * kSpec.warp_rows();
  float o[kGroups][kDim / 8][4] = {};
  SoftmaxRows<kGroups> rows;
  const RowProbes<kSpec> probes(p, block);

  if (tiles.begin < tiles.end) {
    int32_t t = tiles.end - 1;
    const int32_t kv_head = static_cast<int32_t>(static_cast<uint32_t>(block.h) / p.group);
    TileSource<T, kSpec, kSpec.tile_q()> queries(p.q.at<const T>(block.b, block.h, 0), p.q.stride[2],
                                                 block.first_row, p.dim_qk);
    TileSource<T, kSpec, kTileK> keys(p.k.at<const T>(block.b, kv_head, 0), p.k.stride[2], t * kTileK,
                                      p.dim_qk);
    TileSource<T, kSpec, kTileK> values(p.v.at<const T>(block.b, kv_head, 0), p.v.stride[2], t * kTileK,
                                        p.dim_v);
    const BiasTile<kSpec> biases(bias_room, p, block);
    queries.load(q, p.seq_q - block.first_row);
    keys.load(slot(k_tiles, t), block.length - t * kTileK);
    values.load(slot(v_tiles, t), block.length - t * kTileK);
    if constexpr (kSpec.scored) biases.load(p, block, t);
    cp_commit();

    uint32_t q_fragments[kGroups][kSpec.q_registers ? kDim / 16 : 1][4];
    if constexpr (kSpec.q_registers) {
      cp_wait<0>();
      cta_sync();
      ldsm_rows<kGroups>(q, warp_row, q_fragments);
    }

    const auto step = [&]<bool kMasked, bool kRough>() {
      cp_wait<0>();
      cta_sync();
      if (t > tiles.begin) {
        keys.load(slot(k_tiles, t - 1));
        values.load(slot(v_tiles, t - 1));
        if constexpr (kSpec.scored) biases.template load_beside<kRough>(p, t);
        cp_commit();
      }
      float s[kGroups][kTileK / 8][4] = {};
      if constexpr (kSpec.q_registers) {
        mma_abt<kTileK>(s, q_fragments, slot(k_tiles, t));
      } else {
        mma_abt<kTileK>(s, q, warp_row, slot(k_tiles, t));
      }
      if constexpr (kSpec.scored) score_products<kRough>(p, block, t > tiles.begin, biases, t, s);
      if constexpr (kMasked) mask_tile(p, block, block.first_row + warp_row + lane_id() / 4, t * kTileK, s);
      probes.scores(t, s);
      if constexpr (kRough) {
        take_rough_maxima(s, p.sigma, rows, [&] { settle_tile(p, biases, t, s); });
      } else {
        take_maxima(s, p.sigma, rows);
      }
      rescale_rows(o, rows);
      add_output<T>(o, s, p.sigma, rows, slot(v_tiles, t));
      probes.output(t, rows, s, o);
    };
    while (t >= tiles.begin) {
      const int32_t stop = t >= plain.end ? plain.end : t < plain.begin ? tiles.begin : t + 1;
      for (; t >= stop; --t) step.template operator()<true, false>();
      if constexpr (kSpec.scored) {
        if (p.rough)
          for (; t >= plain.begin; --t) step.template operator()<false, true>();
      }
      for (; t >= plain.begin; --t) step.template operator()<false, false>();
    }
  }
  store_rows<T, kSpec>(p, block, q, o, rows);
}

template <class T, class Shape>
__global__ void __launch_bounds__(Shape::kSpec.threads(), Shape::kSpec.blocks_per_sm)
    fa1_ampere_kernel(const __grid_constant__ AmpereParams p) {
  attend_rows<T, Shape::kSpec>(p);
}

}  // namespace attn
