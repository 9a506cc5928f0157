// The consumer: a warpgroup that computes 64 query rows of each item of its block.
//
// It walks tiles of keys from the last to the first, so that masked tiles come first under a causal mask. With
// overlap:
//
//   S = Q K(last)'                                         first_tile()
//   softmax(S), P = S
//   for each earlier tile t:                               step()
//     S = Q K(t)'  |  O += P V(t + 1)                      both are issued
//     softmax(S)                                           while the second product runs
//     P = S, O *= alpha
//   O += P V(first)  |  S = Q K(last)' of the next item    last_output(); the second product only with cross_tile
//   O to shared memory, then out by a tensor copy          finish.h
#pragma once

#include "kernels/fa1/hopper/finish.h"
#include "kernels/fa1/hopper/producer.h"
#include "kernels/forward/clear_rows.h"
#include "kernels/primitives/probe.h"

namespace attn {

// The registers that a consumer keeps from item to item. The members are references to variables of compute():
// if the struct held the variables, nvcc would order the code differently.
template <class T, HopperSpec kSpec>
struct Consumer {
  static constexpr bool kStaged = kSpec.q_stages == 1;  // O leaves through slots of K and V: README.md, Slots
  static constexpr int kInKeys = 1;  // the warpgroup whose O lies where K was
  static constexpr int kTurn = 2 * kWarpgroup;
  static_assert(!kStaged || (kSpec.consumers == 2 && !kSpec.cross_tile && kSpec.tile_k >= 64));

  const HopperParams& p;
  const Pipeline<T, kSpec>& pipe;
  const int& number;   // the index of this warpgroup among the consumers
  const bool& leader;  // the thread that arrives for the warpgroup
  float (&s)[kSpec.tile_k / 8][4];
  float (&alpha)[2];
  uint32_t (&probabilities)[kSpec.tile_k / 16][4];
  Ring<kSpec.q_stages>& q;
  Ring<kSpec.stages>& kv;  // the slot of the tile whose V is used next
  int& held;               // if kStaged: the slot that holds O

  // If the shape has turns, a consumer waits for its turn to issue products, and then passes the turn on.
  __device__ __forceinline__ void my_turn() const {
    if constexpr (kSpec.turns) bar_sync(turn_barrier(number), kTurn);
  }
  __device__ __forceinline__ void your_turn() const {
    if constexpr (kSpec.turns) bar_arrive(turn_barrier(number + 1 == kSpec.consumers ? 0 : number + 1), kTurn);
  }

  // Issues S = Q K'.
  __device__ __forceinline__ void start_scores(int q_slot, int k_slot) const {
    wgmma_pin(s);
    wgmma_fence();
    wgmma_abt(s, pipe.q(q_slot), 64 * number, pipe.k(k_slot));
    wgmma_commit();
  }

  // Computes the first scores of an item while nothing else runs.
  __device__ __forceinline__ void compute_scores() const {
    mbarrier_wait(pipe.q_full + q.slot, q.phase);
    mbarrier_wait(pipe.k_full + kv.slot, kv.phase);
    start_scores(q.slot, kv.slot);
    wgmma_wait<0>();
    wgmma_pin(s);
  }

  // Waits until the copy of O to global memory has read shared memory. If kStaged, frees the slot that held O.
  __device__ __forceinline__ void output_read() const {
    if (!leader) return;
    bulk_wait_read<0>();
    if constexpr (kStaged) mbarrier_arrive((number == kInKeys ? pipe.k_empty : pipe.v_empty) + held, true);
  }
};

// One item of a consumer: 64 rows of a query tile, and the walk over its tiles of keys. The members are
// references to variables of compute(), for the same reason.
template <class T, HopperSpec kSpec>
struct Item {
  static constexpr bool kStaged = Consumer<T, kSpec>::kStaged;
  static constexpr int kInKeys = Consumer<T, kSpec>::kInKeys;

  const Consumer<T, kSpec>& c;
  const Work &work, &next;    // the item; the next one of this block, once it is known
  const Extent& extent;       // of the batch entry
  const Keys (&rows)[2];      // the keys that this thread's rows see
  const Keys &tiles, &plain;  // the tiles to walk over; the part of them that needs no mask
  int32_t& t;                 // the current tile
  const void* (&biases)[2];   // the two rows' bias, in a scored shape
  BiasWords<2, kSpec.tile_k / 8>& words;
  RowState<kSpec.dim>& state;
  const TileProbe& probe;

  // If `come`, waits for the keys in the slot after `at`. Otherwise waits for a slot that is full and stays
  // full, so the wait ends at once. The loop of this wait also keeps ptxas from moving the wait for the
  // products before the softmax.
  __device__ __forceinline__ void wait_for_keys(const Ring<kSpec.stages>& at, bool come) const {
    const Ring<kSpec.stages> after = at.next();
    Mbarrier* const there = kStaged ? c.pipe.k_full + at.slot : c.pipe.q_full + c.q.slot;
    const uint32_t stays = kStaged ? at.phase : c.q.phase;
    mbarrier_wait(come ? c.pipe.k_full + after.slot : there, come ? after.phase : stays);
  }

  // Issues O += P V.
  __device__ __forceinline__ void start_output() const {
    mbarrier_wait(c.pipe.v_full + c.kv.slot, c.kv.phase);
    wgmma_pin(state.o);
    wgmma_pin(c.probabilities);
    wgmma_fence();
    wgmma_pv(state.o, c.probabilities, c.pipe.v(c.kv.slot));
    wgmma_commit();
  }

  // Call it when O += P V of `tile` is done: V's slot is free.
  __device__ __forceinline__ void output_done(int32_t tile) const {
    wgmma_pin(state.o);
    probe.output(tile, state.o);
    mbarrier_arrive(c.pipe.v_empty + c.kv.slot, c.leader);
  }

  // Call it when the scores of tile t are done: the slot of K is free, unless O will be staged there.
  __device__ __forceinline__ void scores_done(int slot) const {
    const bool keep = kStaged && t == tiles.begin;
    mbarrier_arrive(c.pipe.k_empty + slot, c.leader && !(keep && c.number == kInKeys));
    if constexpr (kStaged) mbarrier_arrive(c.pipe.q_empty + c.q.slot, c.leader && keep);
  }

  // Subtracts the slope terms. The slope is read again for each tile: kept in a register, it would cost a
  // register in problems without slopes too.
  __device__ __forceinline__ void take_slopes() const {
    const HeadOf head = head_of<kSpec>(c.p, work);
    const float slope = slope_of(c.p.slopes, head.b, head.h);
    const int32_t shift = kSpec.lengths ? extent.shift : c.p.shift;
    const int32_t first = work.tile * kSpec.tile_q() + 64 * c.number + warp_id() % 4 * 16 + lane_id() / 4 + shift;
    for (int r = 0; r < 2; ++r) take_slope(r, slope, first + 8 * r, t * kSpec.tile_k, c.s);
  }

  // Turns the products of tile t into exponents, and starts to load the bias of the next tile, t - 1.
  __device__ __forceinline__ void score() const {
    change_scores(c.p.terms, biases, t * kSpec.tile_k, words, c.s);
    if (c.p.slopes.data != nullptr) take_slopes();
    if (t > tiles.begin) load_biases(c.p.terms, biases, (t - 1) * kSpec.tile_k, words);
  }

  // Turns the products of tile t into probabilities.
  __device__ __forceinline__ void softmax(bool masked) const {
    if constexpr (kSpec.scored) score();
    if (masked) mask_scores(c.p, rows, t * kSpec.tile_k, c.s);
    probe.scores(t, c.s);
    softmax_of_tile(c.s, c.p.sigma, state, c.alpha);
    probe.maxima(t, state.mu, c.alpha, c.s);
  }

  // All consumers together clear the rows of V past the key length, in the tile in which the keys end: the rows
  // may hold NaN. Rows past the tensor are loaded as zeros.
  __device__ __forceinline__ void clear_values() const {
    const int32_t left = extent.length - t * kSpec.tile_k;
    const bool more = extent.length < c.p.seq_k || c.p.ragged.cu_k != nullptr;  // rows of V follow in memory
    if (kSpec.lengths && more && left < kSpec.tile_k) {
      mbarrier_wait(c.pipe.v_full + c.kv.slot, c.kv.phase);
      clear_rows(c.pipe.v(c.kv.slot), left, thread_id() - kWarpgroup, kSpec.consumers * kWarpgroup);
      bar_sync(kComputingBarrier, kSpec.consumers * kWarpgroup);
    }
  }

  __device__ __forceinline__ void first_tile(uint32_t turn) const {
    if constexpr (!kSpec.cross_tile) c.compute_scores();
    scores_done(c.kv.slot);
    softmax(t >= plain.end || t < plain.begin);
    pack_probabilities<T>(c.s, c.probabilities);
    if (kSpec.q_stages > 1 && c.leader && turn > 0) {  // the previous item's O may still be in the slot of its Q
      bulk_wait_read<0>();
      mbarrier_arrive(c.pipe.q_empty + c.q.next().slot, true);
    }
    if (kStaged && turn > 0) c.output_read();
    if constexpr (kSpec.overlap) wait_for_keys(c.kv, t > tiles.begin || next.any);
    clear_values();
  }

  template <bool kMasked>
  __device__ __forceinline__ void step() const {
    const Ring<kSpec.stages> ahead = c.kv.next();
    if constexpr (!kSpec.overlap) {
      start_output();
      wgmma_wait<0>();
      output_done(t + 1);
      mbarrier_wait(c.pipe.k_full + ahead.slot, ahead.phase);
    }
    c.my_turn();
    c.start_scores(c.q.slot, ahead.slot);
    if constexpr (kSpec.overlap) start_output();
    c.your_turn();
    wgmma_wait<kSpec.overlap ? 1 : 0>();
    wgmma_pin(c.s);
    scores_done(ahead.slot);
    softmax(kMasked);
    if constexpr (kSpec.overlap) {
      wait_for_keys(ahead, t > tiles.begin || next.any);
      wgmma_wait<0>();
      output_done(t + 1);
    }
    pack_probabilities<T>(c.s, c.probabilities);
    rescale(state, c.alpha);
    c.kv = ahead;
  }

  // If all rows see all keys of a tile, it runs the body without masks.
  __device__ __forceinline__ void walk() const {
    --t;
    while (t >= tiles.begin) {
      const int32_t stop = t >= plain.end ? plain.end : t < plain.begin ? tiles.begin : t + 1;
      for (; t >= stop; --t) step<true>();
      for (; t >= plain.begin; --t) step<false>();
    }
  }

  __device__ __forceinline__ void store() const {
    if constexpr (kStaged) {
      wgmma_pin(state.o);
      probe.output(tiles.begin, state.o);
      mbarrier_arrive(c.pipe.v_empty + c.kv.slot, c.leader && c.number == kInKeys);
      bar_sync(kComputingBarrier, kSpec.consumers * kWarpgroup);  // both warpgroups have read both slots
      store_rows<T, kSpec>(
          c.p, c.number == kInKeys ? c.pipe.staged(c.pipe.k(c.kv.slot)) : c.pipe.staged(c.pipe.v(c.kv.slot)), 0,
          c.number, work, state);
      c.held = c.kv.slot;
    } else {
      output_done(tiles.begin);
      store_rows<T, kSpec>(c.p, c.pipe.q(c.q.slot), 64 * c.number, c.number, work, state);
    }
  }
};

template <class T, HopperSpec kSpec>
__device__ __forceinline__ void compute(const HopperParams& p, const Pipeline<T, kSpec>& pipe, int number) {
  float s[kSpec.tile_k / 8][4], alpha[2];
  uint32_t probabilities[kSpec.tile_k / 16][4];
  Ring<kSpec.q_stages> q;
  Ring<kSpec.stages> kv;
  const bool leader = thread_id() % kWarpgroup == 0;
  int held = 0;
  const Consumer<T, kSpec> consumer = {p, pipe, number, leader, s, alpha, probabilities, q, kv, held};

  if (kSpec.turns && number == kSpec.consumers - 1) consumer.your_turn();
  Work work = work_in(p, pipe, 0);
  if (kSpec.cross_tile && work.any) consumer.compute_scores();
  for (uint32_t turn = 0; work.any; ++turn) {
    const int32_t row = work.tile * kSpec.tile_q() + 64 * number;
    const int32_t my_row = row + warp_id() % 4 * 16 + lane_id() / 4;  // the thread's second row is 8 below
    const Extent extent = extent_of<kSpec>(p, work);
    const Keys rows[2] = {visible_keys<kSpec>(p, extent, my_row), visible_keys<kSpec>(p, extent, my_row + 8)};
    const Keys tiles = block_tiles<kSpec>(p, extent, work);
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
                          4 * number + warp_id() % 4);
    probe.rows([&](int r, float(&place)[3]) { place_of<kSpec>(p, work, my_row + 8 * r, place); });
    int32_t t = tiles.end - 1;
    const Item<T, kSpec> item = {consumer, work, next,   extent, rows,  tiles,
                                 plain,    t,    biases, words,  state, probe};

    item.first_tile(turn);
    item.walk();
    const Ring<kSpec.q_stages> q_next = q.next();
    const Ring<kSpec.stages> kv_next = kv.next();
    if constexpr (kSpec.cross_tile) {
      // After the last item this product reads slots that are full, and its result is ignored: a branch here
      // would stop ptxas from pipelining the products.
      mbarrier_wait(pipe.q_full + (next.any ? q_next.slot : q.slot), next.any ? q_next.phase : q.phase);
      consumer.my_turn();
      item.start_output();
      consumer.start_scores(q_next.slot, kv_next.slot);
      consumer.your_turn();
      wgmma_wait<1>();
    } else {
      item.start_output();
      next = work_in(p, pipe, turn + 1);
      wgmma_wait<0>();
    }
    item.store();
    if constexpr (kSpec.cross_tile) {
      wgmma_wait<0>();
      wgmma_pin(s);
    }
    q = q_next;
    kv = kv_next;
    work = next;
  }
  if (kSpec.turns && number == 0) consumer.my_turn();  // takes the one turn too many, given at the start
  consumer.output_read();
}

}  // namespace attn
