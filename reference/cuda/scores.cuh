// The scores of a team's rows: scores.h. Each warp takes 32 keys at a time.
#pragma once

#include <numbers>

#include "reference/cuda/row.cuh"
#include "reference/semantics.h"

namespace attnfuzz::cuda {

// Starts the team of rows at, at + 1, ...: finds the keys that position allows.
__device__ inline void find_keys(const RowsInput& in, int64_t at, int count, Team& team) {
  const auto rank = static_cast<int>(threadIdx.x);
  int32_t first = INT32_MAX, last = 0;
  for (int r = 0; r < count; ++r) {
    const RowTask& task = in.tasks[at + r];
    if (task.last <= task.first) continue;
    first = min(first, task.first);
    last = max(last, task.last);
  }
  if (last == 0) first = 0;
  if (rank < kTeam) team.row[rank].way = Way::kDone, team.row[rank].unbounded = 0;
  if (rank < count) {
    Row& row = team.row[rank];
    const RowTask& task = in.tasks[at + rank];
    const bool some = task.last > task.first;
    row.lo = some ? task.first - first : 0;
    row.hi = some ? task.last - first : 0;
    row.impure = 0;
  }
  if (rank == 0) {
    team.count = count;
    team.first = first;
    team.keys = last - first;
    team.v = static_cast<const std::byte*>(in.v) +
             (int64_t{in.tasks[at].group} * in.keys + first) * in.stride_v * number_bytes(in);
  }
}

// Reads a query into `q` (times kRaise, padded with zeros), and finds facts about all of it. Run by a warp.
template <Format kFormat>
__device__ inline void read_query(const RowsInput& in, int64_t at, double* q, Row& row) {
  using G = Group<Members::kWarp>;
  bool nan = false, infinite = false, least = false, flushed = false;
  double norm = 0, most = 0;
  for (int t = G::rank(); t < in.stride_qk; t += G::size()) {
    const double x = number<kFormat>(numbers_of<kFormat>(in.q)[at * in.stride_qk + t]), size = fabs(x);
    q[t] = x * kRaise<kFormat>;
    nan |= isnan(x);
    infinite |= isinf(x);
    least |= x != 0 && size < in.model.least_factor;
    flushed |= x != 0 && size < in.model.flushed_factor;
    norm += size;
    most = larger(most, size);
  }
  norm = G::over(norm, Sum());
  most = G::over(most, Max());
  const unsigned all = G::bits(nan | infinite << 1 | least << 2 | flushed << 3);
  if (G::rank() > 0) return;
  row.q_norm = norm;
  row.q_most = most;
  row.impure = (all & 1 ? kSeesNaN : 0) | (all & 2 ? kSeesInfinity : 0);
  row.q_below_least = all & 4;
  row.q_below_flushed = all & 8;
}

// q.k and the other sums over its columns.
struct Product {
  double dot = 0, absolute = 0, running = 0;
  double aligned = 0;  // sum |q_t k_t| as the tensor core aligns it, if needed
};

// The same chains as products.cc: one rounding for each term, in the order of t. `q`: of R rows.
template <int R, Format kFormat, bool kAligned>
__device__ inline void products_of(const RowsInput& in, const double* q, const Bits<kFormat>* key,
                                   Product (&p)[R]) {
  const double least = in.model.least_factor, raised = least * kRaise<kFormat>, down = least / kRaise<kFormat>;
  constexpr int kEach = 16 / sizeof(Bits<kFormat>), kLoads = kPad / kEach;  // numbers in a load, and loads
  const auto* from = reinterpret_cast<const uint4*>(key);
  uint4 next[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) next[i] = from[i];
  for (int t = 0; t < in.stride_qk; t += kPad) {
    uint4 now[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) now[i] = next[i];
    // Starts the next load before the last one is used.
    if (t + kPad < in.stride_qk) {
#pragma unroll
      for (int i = 0; i < kLoads; ++i) next[i] = from[(t + kPad) / kEach + i];
    }
#pragma unroll
    for (int r = 0; r < R; ++r) p[r].running += fabs(p[r].dot);
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      const uint32_t words[] = {now[load].x, now[load].y, now[load].z, now[load].w};
#pragma unroll
      for (int i = 0; i < kEach / 2; ++i) {
        const uint32_t bits[] = {kEach == 8 ? words[i] & 0xffffu : words[2 * i % 4],
                                 kEach == 8 ? words[i] >> 16 : words[(2 * i + 1) % 4]};
        const double k[] = {lowered<kFormat>(bits[0]), lowered<kFormat>(bits[1])};
#pragma unroll
        for (int r = 0; r < R; ++r) {
          const Pair two = *reinterpret_cast<const Pair*>(q + r * in.stride_qk + t + kEach * load + 2 * i);
          const double x[] = {two.a, two.b};
#pragma unroll
          for (int n = 0; n < 2; ++n) {
            p[r].dot = fma(x[n], k[n], p[r].dot);
            p[r].absolute = fma(fabs(x[n]), fabs(k[n]), p[r].absolute);
            if constexpr (kAligned) p[r].aligned += counted(x[n], raised) * counted(k[n], down);
          }
        }
      }
    }
  }
}

// One score: x, its error, and its delta.
struct Score {
  double x, err, delta;
};
// `added`: the bias and the slope.
__device__ inline Score score_of(const ErrorNumbers& model, const Row& row, const Product& product,
                                 bool aligned, bool flushed, double block, double key_norm, const Added& added) {
  const double scale = fabs(model.scale), size = aligned ? product.aligned : product.absolute;
  const bool adjusted = model.softcap > 0 || added.bias || added.slope;
  double delta = block > 0 ? (product.running + size) * block : size * model.score_gamma;
  delta = scale * (delta + model.dim_qk * kFlush);
  if (model.flushes && scale < 2 * kFlush) delta += scale * product.absolute;
  if (flushed) delta += scale * kFlush * (row.q_norm + key_norm);
  double x = product.dot * model.scale, tanh_size = 0;
  if (model.softcap > 0) {
    const Capped score = capped(model.softcap, x);
    tanh_size = fabs(score.tanh);
    x = score.value;
  }
  const double size_before_bias = fabs(x);
  x += added.b;
  if (added.slope) x += added.t;
  double err = delta + ((model.fused ? 0 : 2 * kU) + (adjusted ? kU : 0)) * fabs(x);
  if (adjusted) err += 3 * kU * size_before_bias;
  if (added.bias) err += 3 * kU * fabs(added.b);
  if (added.slope) err += alibi_error(added.t, added.distance, added.bias, added.b, size_before_bias);
  if (model.softcap > 0) err += model.softcap * (model.eps_tanh * tanh_size + 1.4 * kU);
  if (model.folded_unit > 0) {
    err += scale * model.folded_unit * product.absolute;
    err += model.folded_tiny * key_norm;
  }
  return {x, err, delta};
}

// Computes x, err, delta and absolute of each key, for all rows of the team. A hidden key gets err kHidden.
template <int R, Format kFormat>
__device__ inline void find_scores(const RowsInput& in, int64_t at, const GroupFacts& facts, const double* q,
                                   const double* norms, const uint8_t* facts_of_keys, Team& team) {
  const ErrorNumbers& model = in.model;
  const bool bias = in.bias_dtype != ATTN_NONE;
  const bool flushed_key = __longlong_as_double(static_cast<int64_t>(facts.least_key)) < model.flushed_factor;
  const double blocks = ceil(model.dim_qk / kPad) * model.score_block;
  const double block = model.ascending_dot && blocks < 1 ? model.score_block / (1 - blocks) : 0;
  const int64_t slot = int64_t{in.tasks[at].group} * in.keys + team.first;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  bool below_least = false;
  for (int r = 0; r < team.count; ++r) below_least |= team.row[r].q_below_least;
  // All lanes of a warp continue as long as any of them has a key.
  for (int from = static_cast<int>(threadIdx.x) / 32 * 32; from < team.keys; from += static_cast<int>(blockDim.x)) {
    const int k = from + lane;
    const bool is = k < team.keys;
    const int seen = is ? k : from;
    const uint8_t key_facts = facts_of_keys[slot + seen];
    const double key_norm = norms[slot + seen];
    const bool aligned = __any_sync(kAll, below_least || (key_facts & kBelowLeast) != 0);
    const Bits<kFormat>* key = numbers_of<kFormat>(in.k) + (slot + seen) * in.stride_qk;
    Product products[R];
    if (aligned)
      products_of<R, kFormat, true>(in, q, key, products);
    else
      products_of<R, kFormat, false>(in, q, key, products);
    if (!is) continue;
    const auto purity = static_cast<Purity>(key_facts & ~kBelowLeast);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (r >= team.count) continue;
      Row& row = team.row[r];
      bool sees = k >= row.lo && k < row.hi;
      double b = 0;
      Added added = {};
      if (sees && (bias || in.mask != nullptr)) {
        const RowTask& task = in.tasks[at + r];
        if (in.mask != nullptr) sees = in.mask[task.mask + team.first + k] != 0;
        if (bias) b = number_of(in.bias_dtype, in.bias, task.bias + team.first + k);
        sees = sees && !(isinf(b) && b < 0);
      }
      if (!sees) {
        row.product[k] = {0, kHidden};
        continue;
      }
      // Inputs that are not finite decide a row, whatever its scores are.
      if (purity == Purity::kNaN || isnan(b)) atomicOr(&row.impure, kSeesNaN);
      if (purity == Purity::kInfinite || isinf(b)) atomicOr(&row.impure, kSeesInfinity);
      if (in.slopes) added = added_by_slope(in, in.tasks[at + r], team.first + k);
      added.bias = bias, added.b = b;
      const bool flushed = model.flushes && (flushed_key || row.q_below_flushed);
      const Score score = score_of(model, row, products[r], aligned, flushed, block, key_norm, added);
      row.product[k] = {score.x, score.err};
      row.part[k] = {score.delta, products[r].absolute};
    }
  }
}

}  // namespace attnfuzz::cuda
