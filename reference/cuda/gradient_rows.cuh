// These kernels find what the pairs of a backward pass need of each row and of each key. They follow Block::Query
// and Rows of gradients.cc. A warp takes a row, a thread a key.
#pragma once

#include "reference/cuda/block.cuh"
#include "reference/cuda/gradients.h"

namespace attnfuzz::cuda {

using gradients::kFree;
using gradients::kNaNDue;
using gradients::kPure;
using gradients::Taint;
using G = Group<Members::kWarp>;

// Facts about a group, as bits.
enum : unsigned {
  kKeysNotFinite = 1,  // K has a number that is not finite
  kHiddenNan = 2,      // a kernel may compute NaN for a hidden pair of some key
  kAllOfDk = 4,        // a weight of 0 may meet NaN in any column of dK
  kAllOfDv = 8         // ... of dV
};
// Facts about a pair: Taint of dS, Taint of P, and whether the query sees the key.
constexpr unsigned kTaintOfP = 2, kSeen = 16;

__device__ inline Taint worse(Taint a, Taint b) { return a > b ? a : b; }
__device__ inline Taint over_warp(Taint mine) {
  const unsigned all = G::bits(1u << mine);
  return (all >> kNaNDue & 1) != 0 ? kNaNDue : (all >> kFree & 1) != 0 ? kFree : kPure;
}

// A number, or 0 in place of one that is not finite; *taint then says so.
__device__ inline double pure(double x, Taint* taint) {
  const Taint is = gradients::taint_of(x);
  *taint = worse(*taint, is);
  return is == kPure ? x : 0;
}

template <Format kFormat>
__device__ inline double number_at(const void* base, int64_t index) {
  return number<kFormat>(numbers_of<kFormat>(base)[index]);
}

// A key as a query sees it.
struct Seen {
  bool is;
  double bias;
};
__device__ inline Seen see(const RowsInput& in, const RowTask& task, int j) {
  Seen seen = {j >= task.first && j < task.last, 0};
  if (!seen.is) return seen;
  if (in.mask != nullptr) seen.is = in.mask[task.mask + j] != 0;
  if (in.bias_dtype != ATTN_NONE) seen.bias = number_of(in.bias_dtype, in.bias, task.bias + j);
  seen.is = seen.is && !(isinf(seen.bias) && seen.bias < 0);
  return seen;
}

// Counts the keys of a row, and the blocks of the mma that hold one. Run by a warp.
__device__ inline void count_keys(const GradientsInput& in, int64_t row, int64_t* pairs, int64_t* blocks) {
  const RowTask& task = in.rows.tasks[row];
  const int lane = G::rank();
  int64_t last = -1;
  *pairs = *blocks = 0;
  for (int from = task.first; from < task.last; from += 32) {
    const int j = from + lane;
    const bool mine = j < task.last && see(in.rows, task, j).is;
    const unsigned all = __ballot_sync(kAll, mine), before = all & ((1u << lane) - 1);
    const int64_t block = gradients::block_of(j, in.tile_k, in.rows.model.mma_block);
    const int64_t previous = __shfl_sync(kAll, block, before != 0 ? 31 - __clz(static_cast<int>(before)) : 0);
    *pairs += __popc(all);
    *blocks += __popc(__ballot_sync(kAll, mine && block != (before != 0 ? previous : last)));
    if (all != 0) last = __shfl_sync(kAll, block, 31 - __clz(static_cast<int>(all)));
  }
  if (in.gathered) *blocks = *pairs;
}

// Reads Q, dO and O of a row. Run by a warp.
template <Format kFormat>
__device__ inline void read_row(const GradientsInput& in, int64_t row, GradientRow& to, Taint* dout_taint,
                                Taint* o_taint) {
  double sums[6] = {}, most = 0;
  for (int t = G::rank(); t < in.rows.dim_qk; t += 32) {
    const double size = fabs(pure(number_at<kFormat>(in.rows.q, row * in.rows.stride_qk + t), &to.q_taint));
    sums[0] += size;
    most = larger(most, size);
  }
  for (int c = G::rank(); c < in.rows.dim_v; c += 32) {
    const int64_t stored = row * in.rows.stride_v + c, own = row * in.rows.dim_v + c;
    const double d = pure(number_at<kFormat>(in.dout, stored), dout_taint);
    const double o = in.own_o != nullptr ? in.own_o[own] : number_at<kFormat>(in.o, stored);
    *o_taint = worse(*o_taint, gradients::taint_of(o));
    sums[1] += fabs(d);
    sums[2] += d * o;
    sums[3] += fabs(d * o);
    sums[5] += fabs(o);
    if (in.own_o != nullptr) sums[4] += fabs(d) * in.own_o_error[own];
  }
  G::over(sums, Sum());
  to.q_norm = sums[0], to.q_most = G::over(most, Max()), to.dout_norm = sums[1];
  to.delta = sums[2], to.delta_size = sums[3], to.delta_error = sums[4];
  to.delta_factors = sums[1] + sums[5];
  to.q_taint = over_warp(to.q_taint);
  *dout_taint = over_warp(*dout_taint);
  *o_taint = over_warp(*o_taint);
}

// Loads the LSE of a row, which includes the sink: load_lse() of gradients.cc.
__device__ inline void load_lse(const GradientsInput& in, int64_t row, GradientRow& to) {
  const double stored = in.own_lse != nullptr ? in.own_lse[row] : in.lse[row] * in.rows.model.log_unit;
  to.lse = stored;
  to.lse_taint = gradients::taint_of(stored);
  if (!in.sinks) return;
  const double sink = in.rows.tasks[row].sink;
  if (to.pairs == 0 && isinf(sink)) to.lse_taint = kPure;
  if (!in.apart) return;
  if (to.pairs == 0) {
    to.lse = sink;
    to.lse_taint = kPure;
  } else if (in.own_lse != nullptr) {
    to.lse_apart = in.own_lse_apart[row];
  } else {
    to.lse_apart = stored;
    const gradients::WithSink with = gradients::with_sink(stored, sink);
    to.lse = with.lse, to.lse_error = with.error;
    to.lse_taint = gradients::taint_of(with.lse);
  }
}

// Subtracts dLSE from D, unless it is the gradient of an LSE without the sink.
__device__ inline Taint load_dlse(const GradientsInput& in, int64_t row, GradientRow& to) {
  if (to.pairs == 0 && in.apart) return kPure;
  Taint taint = kPure;
  to.dlse = pure(in.dlse[row], &taint);
  if (in.apart) return taint;
  to.delta -= to.dlse;
  to.delta_size += fabs(to.dlse);
  return taint;
}

// Adds the errors of O and LSE of a kernel that computes both by itself: load_errors() of gradients.cc.
__device__ inline void load_errors(const GradientsInput& in, int64_t row, GradientRow& to) {
  const auto keys = static_cast<double>(to.pairs);
  const auto error = [&](double bound, double terms) {
    return bound + 3.01 * kU * log(larger(terms, 1)) + in.rows.model.eps_reciprocal + 4 * kU;
  };
  to.delta_error *= 1 + gamma(static_cast<double>(in.rows.dim_v + 1), kU);
  to.delta_error += 5 * kU * fabs(to.dlse);
  to.lse_error = error(in.own_lse_error[row], keys + in.sinks);
  if (in.apart && to.pairs > 0) to.lse_apart_error = error(in.own_lse_apart_error[row], keys);
}

// load_saved() of gradients.cc.
__device__ inline void load_saved(const GradientsInput& in, int64_t row, Taint dout_taint, Taint o_taint,
                                  GradientRow& to) {
  to.row_taint = dout_taint;
  if (to.pairs == 0 && !in.sinks) {
    to.delta = to.delta_size = to.delta_factors = to.delta_error = 0;
    return;
  }
  load_lse(in, row, to);
  Taint taint = worse(worse(to.lse_taint, dout_taint), o_taint);
  to.sink_taint = taint;
  if (in.dlse != nullptr) taint = worse(taint, load_dlse(in, row, to));
  if (!in.apart) to.sink_taint = taint;
  if (in.own_o != nullptr) load_errors(in, row, to);
  if (in.dlse != nullptr && in.apart && to.pairs > 0) taint = worse(taint, gradients::taint_of(to.lse_apart));
  to.row_taint = taint;
  to.taint = to.pairs == 0 ? kPure : worse(taint, to.q_taint);
  if (!isfinite(to.lse)) to.lse = 0;
  if (!isfinite(to.lse_apart)) to.lse_apart = 0;
  if (to.sink_taint != kPure) to.delta = to.delta_size = to.delta_factors = 0;
}

template <Format kFormat>
__global__ void __launch_bounds__(kThreads)
    rows_kernel(const __grid_constant__ GradientsInput in, const GradientsScratch to) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= in.rows.rows) return;
  const ErrorNumbers& model = in.rows.model;
  GradientRow of = {};
  int64_t blocks;
  count_keys(in, row, &of.pairs, &blocks);
  Taint dout_taint = kPure, o_taint = kPure;
  read_row<kFormat>(in, row, of, &dout_taint, &o_taint);
  if (G::rank() > 0) return;
  of.dout_taint = dout_taint;
  of.sum_error = in.terms.sum_error(of.pairs, blocks, in.terms.dq_adds);
  load_saved(in, row, dout_taint, o_taint, of);
  to.rows[row] = of;
  // meet_hidden_keys() of gradients.cc
  const bool all_of_dk = of.row_taint != kPure || (model.softcap > 0 && of.q_taint != kPure);
  const unsigned facts = (all_of_dk ? kAllOfDk : 0) | (of.lse_taint != kPure ? kAllOfDv : 0);
  if (facts != 0) atomicOr(&to.groups[in.rows.tasks[row].group], facts);
}

template <Format kFormat>
__global__ void __launch_bounds__(kThreads)
    keys_kernel(const __grid_constant__ GradientsInput in, const GradientsScratch to) {
  const int64_t slot = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (slot >= int64_t{in.rows.groups} * in.rows.keys) return;
  const auto group = static_cast<int>(slot / in.rows.keys), j = static_cast<int>(slot % in.rows.keys);
  GradientKey of = {};
  if (j < in.rows.lengths[group]) {
    for (int t = 0; t < in.rows.dim_qk; ++t)
      of.k_norm += fabs(pure(number_at<kFormat>(in.rows.k, slot * in.rows.stride_qk + t), &of.k_taint));
    for (int c = 0; c < in.rows.dim_v; ++c)
      of.v_norm += fabs(pure(number_at<kFormat>(in.rows.v, slot * in.rows.stride_v + c), &of.v_taint));
    int64_t blocks = 0, last = -1;
    for (int32_t row = in.first_row[group]; row < in.first_row[group + 1]; ++row) {
      if (!see(in.rows, in.rows.tasks[row], j).is) continue;
      const GradientTask& task = in.tasks[row];
      const int64_t block = int64_t{task.head} * (in.seq_q + 1) +
                            gradients::block_of(task.query, in.tile_q, in.rows.model.mma_block);
      ++of.pairs;
      blocks += in.gathered || block != last;
      last = block;
    }
    of.sum_error = in.terms.sum_error(of.pairs, blocks, in.terms.dkv_adds);
    const bool hidden = of.v_taint != kPure || (in.rows.model.softcap > 0 && of.k_taint != kPure);
    const unsigned facts = (of.k_taint != kPure ? kKeysNotFinite : 0) | (hidden ? kHiddenNan : 0);
    if (facts != 0) atomicOr(&to.groups[group], facts);
  }
  to.keys[slot] = of;
}

}  // namespace attnfuzz::cuda
