// FA-1 on sm_90a: a persistent block of one loading and several computing
// warpgroups, each of those with 64 query rows of its own.
//
// The loader brings Q, K and V by tensor copies through rings of slots; a slot goes
// round by two barriers, full and empty. Tiles of keys are walked from the last to
// the first, so that masked ones come first under a causal mask. A computing
// warpgroup, with overlap:
//
//   S = Q K(last)'            softmax(S)
//   each earlier tile t:      S = Q K(t)' | O += P V(t+1)     both on their way
//                             softmax(S)                      while O is not ready
//                             P = S, O *= alpha
//   O += P V(first)           | S = Q K(last)' of the next query tile (cross_tile)
//                             O to shared memory, then out by a tensor copy
#pragma once

#include "kernels/fa1/hopper/load.h"
#include "kernels/fa1/hopper/store.h"
#include "kernels/forward/clear_rows.h"
#include "kernels/primitives/probe.h"

namespace attn {

template <class T, HopperSpec kSpec>
__device__ __forceinline__ void compute(const HopperParams& p, const Pipeline<T, kSpec>& pipe, int consumer) {
  float s[kSpec.tile_k / 8][4], alpha[2];
  uint32_t probabilities[kSpec.tile_k / 16][4];
  Ring<kSpec.q_stages> q;
  Ring<kSpec.stages> kv;
  const bool leader = thread_id() % kWarpgroup == 0;
  // With one slot of Q, O goes out by the slots of the last K and V, one a warpgroup: Q's is free once
  // it has met the last K, and the next Q comes beside the rest.
  constexpr bool kStaged = kSpec.q_stages == 1;
  constexpr int kInKeys = 1;  // the warpgroup whose O lies where K was
  static_assert(!kStaged || (kSpec.consumers == 2 && !kSpec.cross_tile && kSpec.tile_k >= 64));
  int held = 0;  // slot that O lies in
  const auto output_read = [&] {
    if (!leader) return;
    bulk_wait_read<0>();
    if constexpr (kStaged) mbarrier_arrive((consumer == kInKeys ? pipe.k_empty : pipe.v_empty) + held, true);
  };
  constexpr int kTurn = 2 * kWarpgroup;
  const auto my_turn = [&] {
    if constexpr (kSpec.turns) bar_sync(turn_barrier(consumer), kTurn);
  };
  const auto your_turn = [&] {
    if constexpr (kSpec.turns)
      bar_arrive(turn_barrier(consumer + 1 == kSpec.consumers ? 0 : consumer + 1), kTurn);
  };
  // S = Q K' is put on its way.
  const auto start_scores = [&](int q_slot, int k_slot) {
    wgmma_pin(s);
    wgmma_fence();
    wgmma_abt(s, pipe.q(q_slot), 64 * consumer, pipe.k(k_slot));
    wgmma_commit();
  };

  if (kSpec.turns && consumer == kSpec.consumers - 1) your_turn();
  Work work = work_in(p, pipe, 0);
  if (kSpec.cross_tile && work.any) {
    mbarrier_wait(pipe.q_full, 0);
    mbarrier_wait(pipe.k_full, 0);
    start_scores(0, 0);
    wgmma_wait<0>();
    wgmma_pin(s);
  }
  for (uint32_t turn = 0; work.any; ++turn) {
    const int32_t row = work.tile * kSpec.tile_q() + 64 * consumer;
    const int32_t my_row = row + warp_id() % 4 * 16 + lane_id() / 4;
    const Extent extent = extent_of<kSpec>(p, work);
    const Keys rows[2] = {visible_keys<kSpec>(p, extent, my_row), visible_keys<kSpec>(p, extent, my_row + 8)};
    const Keys tiles = block_tiles<kSpec>(p, extent, work.tile);
    const Keys plain = plain_tiles<kSpec>(p, extent, row, tiles);
    const void* biases[2];
    BiasWords<2, kSpec.tile_k / 8> words;
    if constexpr (kSpec.scored) {
      const HeadOf head = head_of<kSpec>(p, work);
      biases[0] = bias_row(p.terms, head.b, head.h, my_row);
      biases[1] = bias_row(p.terms, head.b, head.h, my_row + 8);
      load_biases(p.terms, biases, (tiles.end - 1) * kSpec.tile_k, words);
    }
    Work next = kSpec.cross_tile ? work_in(p, pipe, turn + 1) : Work{0, 0, false};
    RowState<kSpec.dim> state;
    state.sum[0] = state.sum[1] = zero();
    const TileProbe probe(p.probe, static_cast<uint32_t>(work.head) * p.q_tiles + work.tile,
                          4 * consumer + warp_id() % 4);
    probe.rows([&](int r, float(&place)[3]) { place_of<kSpec>(p, work, my_row + 8 * r, place); });
    // O += P V is put on its way.
    const auto start_output = [&] {
      mbarrier_wait(pipe.v_full + kv.slot, kv.phase);
      wgmma_pin(state.o);
      wgmma_pin(probabilities);
      wgmma_fence();
      wgmma_pv(state.o, probabilities, pipe.v(kv.slot));
      wgmma_commit();
    };
    const auto output_done = [&](int32_t tile) {
      wgmma_pin(state.o);
      probe.output(tile, state.o);
      mbarrier_arrive(pipe.v_empty + kv.slot, leader);
    };

    // Those after `at`, if they come; else for what is there and stays. The wait's loop also keeps the
    // compiler from waiting for the products before the softmax that is to run beside them.
    const auto wait_for_keys = [&](const Ring<kSpec.stages>& at, bool come) {
      const Ring<kSpec.stages> after = at.next();
      Mbarrier* const there = kStaged ? pipe.k_full + at.slot : pipe.q_full + q.slot;
      mbarrier_wait(come ? pipe.k_full + after.slot : there, come ? after.phase : kStaged ? at.phase : q.phase);
    };

    int32_t t = tiles.end - 1;
    // Exponents of tile t, and the bias of the one before it is on its way.
    const auto score = [&] {
      change_scores(p.terms, biases, t * kSpec.tile_k, words, s);
      if (t > tiles.begin) load_biases(p.terms, biases, (t - 1) * kSpec.tile_k, words);
    };
    // The scores of tile t are there, of K in `slot`.
    const auto scores_done = [&](int slot) {
      const bool keep = kStaged && t == tiles.begin;
      mbarrier_arrive(pipe.k_empty + slot, leader && !(keep && consumer == kInKeys));
      if constexpr (kStaged) mbarrier_arrive(pipe.q_empty + q.slot, leader && keep);
    };
    if constexpr (!kSpec.cross_tile) {
      mbarrier_wait(pipe.q_full + q.slot, q.phase);
      mbarrier_wait(pipe.k_full + kv.slot, kv.phase);
      start_scores(q.slot, kv.slot);
      wgmma_wait<0>();
      wgmma_pin(s);
    }
    scores_done(kv.slot);
    if constexpr (kSpec.scored) score();
    if (t >= plain.end || t < plain.begin) mask_scores(p, rows, t * kSpec.tile_k, s);
    probe.scores(t, s);
    softmax_of_tile(s, p.sigma, state, alpha);
    probe.maxima(t, state.mu, alpha, s);
    pack_probabilities<T>(s, probabilities);
    if (kSpec.q_stages > 1 && leader && turn > 0) {
      bulk_wait_read<0>();
      mbarrier_arrive(pipe.q_empty + q.next().slot, true);
    }
    if (kStaged && turn > 0) output_read();
    if constexpr (kSpec.overlap) wait_for_keys(kv, t > tiles.begin || next.any);
    // What lies past the tensor has come as zeros.
    const int32_t left = extent.length - t * kSpec.tile_k;
    if (kSpec.lengths && extent.length < p.seq_k && left < kSpec.tile_k) {
      mbarrier_wait(pipe.v_full + kv.slot, kv.phase);
      clear_rows(pipe.v(kv.slot), left, thread_id() - kWarpgroup, kSpec.consumers * kWarpgroup);
      bar_sync(kComputingBarrier, kSpec.consumers * kWarpgroup);
    }

    // One tile; kv.slot is that of the tile before, whose V is still to be used.
    const auto step = [&]<bool kMasked>() {
      const Ring<kSpec.stages> ahead = kv.next();
      if constexpr (!kSpec.overlap) {
        start_output();
        wgmma_wait<0>();
        output_done(t + 1);
        mbarrier_wait(pipe.k_full + ahead.slot, ahead.phase);
      }
      my_turn();
      start_scores(q.slot, ahead.slot);
      if constexpr (kSpec.overlap) start_output();
      your_turn();
      wgmma_wait<kSpec.overlap ? 1 : 0>();
      wgmma_pin(s);
      scores_done(ahead.slot);
      if constexpr (kSpec.scored) score();
      if constexpr (kMasked) mask_scores(p, rows, t * kSpec.tile_k, s);
      probe.scores(t, s);
      softmax_of_tile(s, p.sigma, state, alpha);
      probe.maxima(t, state.mu, alpha, s);
      if constexpr (kSpec.overlap) wait_for_keys(ahead, t > tiles.begin || next.any);
      if constexpr (kSpec.overlap) {
        wgmma_wait<0>();
        output_done(t + 1);
      }
      pack_probabilities<T>(s, probabilities);
      rescale(state, alpha);
      kv = ahead;
    };
    --t;
    while (t >= tiles.begin) {
      const int32_t stop = t >= plain.end ? plain.end : t < plain.begin ? tiles.begin : t + 1;
      for (; t >= stop; --t) step.template operator()<true>();
      for (; t >= plain.begin; --t) step.template operator()<false>();
    }

    const Ring<kSpec.q_stages> q_next = q.next();
    const Ring<kSpec.stages> kv_next = kv.next();
    if constexpr (kSpec.cross_tile) {
      // Past the last tile this computes what nobody reads, of slots that are full already.
      mbarrier_wait(pipe.q_full + (next.any ? q_next.slot : q.slot), next.any ? q_next.phase : q.phase);
      my_turn();
      start_output();
      start_scores(q_next.slot, kv_next.slot);
      your_turn();
      wgmma_wait<1>();
    } else {
      start_output();
      next = work_in(p, pipe, turn + 1);
      wgmma_wait<0>();
    }
    if constexpr (kStaged) {
      wgmma_pin(state.o);
      probe.output(tiles.begin, state.o);
      mbarrier_arrive(pipe.v_empty + kv.slot, leader && consumer == kInKeys);
      bar_sync(kComputingBarrier, kSpec.consumers * kWarpgroup);  // both have done with both slots
      store_rows<T, kSpec>(p, consumer == kInKeys ? pipe.staged(pipe.k(kv.slot)) : pipe.staged(pipe.v(kv.slot)),
                           0, consumer, work, state);
      held = kv.slot;
    } else {
      output_done(tiles.begin);
      store_rows<T, kSpec>(p, pipe.q(q.slot), 64 * consumer, consumer, work, state);
    }
    if constexpr (kSpec.cross_tile) {
      wgmma_wait<0>();
      wgmma_pin(s);
    }
    q = q_next;
    kv = kv_next;
    work = next;
  }
  if (kSpec.turns && consumer == 0) my_turn();  // the one that was given first
  output_read();
}

template <class T, class Shape>
__global__ void __launch_bounds__(Shape::kSpec.threads(), Shape::kSpec.blocks_per_sm)
    fa1_hopper_kernel(const __grid_constant__ HopperParams p) {
  if constexpr (kHasWarpgroups) {
    constexpr HopperSpec kSpec = Shape::kSpec;
    const Pipeline<T, kSpec> pipe = set_up<T, kSpec>();
    const int group = warpgroup_id();
    if (group == 0) {
      give_registers<kSpec.give>();
      if (warp_id() == 0 && elect_one()) load(p, pipe);
    } else {
      take_registers<kSpec.take>();
      if constexpr (kSpec.scored || kSpec.lengths) grid_dependency_wait();  // a bias or lengths are read there
      compute(p, pipe, group - 1);
    }
  }
}

}  // namespace attn
