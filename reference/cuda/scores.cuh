// The scores of a row, its tiles and its P: scores.h, tile_walk.h and rounded_p.h, a key a thread.
#pragma once

#include <numbers>

#include "reference/cuda/row.cuh"

namespace attnfuzz::cuda {

// row.key and row.n. As row_keys(): of those that position allows, what the masks leave.
template <class G>
__device__ inline void find_keys(const RowsInput& in, const RowTask& task, Row& row) {
  const int tid = G::rank(), lane = tid % 32, warp = tid / 32;
  if (in.mask == nullptr && in.bias_dtype == ATTN_NONE) {
    for (int k = tid; k < task.last - task.first; k += G::kSize) row.key[k] = task.first + k;
    if (tid == 0) row.n = task.last - task.first;
    G::sync();
    return;
  }
  [[maybe_unused]] __shared__ int seen[kWarps];  // of a group that is a block
  int before = 0;
  for (int at = task.first; at < task.last; at += G::kSize) {
    const int j = at + tid;
    bool sees = j < task.last && (in.mask == nullptr || in.mask[task.mask + j] != 0);
    if (sees && in.bias_dtype != ATTN_NONE) {
      const double bias = number_of(in.bias_dtype, in.bias, task.bias + j);
      sees = !(isinf(bias) && bias < 0);
    }
    const unsigned all = __ballot_sync(kAll, sees);
    int place = before + __popc(all & ((1u << lane) - 1));
    if constexpr (G::kWarp) {
      before += __popc(all);
    } else {
      if (lane == 0) seen[warp] = __popc(all);
      __syncthreads();
      for (int w = 0; w < kWarps; ++w) {
        if (w < warp) place += seen[w];
        before += seen[w];
      }
    }
    if (sees) row.key[place] = j;
    G::sync();
  }
  if (tid == 0) row.n = before;
  G::sync();
}

// Reads the query into `q` (padded with zeros) and what is asked of all of it. Returns its Purity.
template <class G, bool kBf16>
__device__ inline Purity read_query(const RowsInput& in, int64_t task, double* q, Row& row) {
  bool nan = false, infinite = false, least = false, flushed = false;
  double norm = 0, most = 0;
  for (int t = G::rank(); t < in.stride_qk; t += G::kSize) {
    const double x = number<kBf16>(in.q[task * in.stride_qk + t]), size = fabs(x);
    q[t] = x;
    nan |= isnan(x);
    infinite |= isinf(x);
    least |= x != 0 && size < in.model.least_factor;
    flushed |= x != 0 && size < in.model.flushed_factor;
    norm += size;
    most = max(most, size);
  }
  norm = G::over(norm, Sum());
  most = G::over(most, Max());
  least = G::any(least);
  flushed = G::any(flushed);
  nan = G::any(nan);
  infinite = G::any(infinite);
  if (G::rank() == 0) {
    row.q_norm = norm;
    row.q_most = most;
    row.q_below_least = least;
    row.q_below_flushed = flushed;
  }
  return nan ? Purity::kNaN : infinite ? Purity::kInfinite : Purity::kFinite;
}

// Impure inputs decide a row before any arithmetic does.
template <class G>
__device__ inline Purity purity_of(const RowsInput& in, const RowTask& task, const GroupFacts& facts,
                                   const uint8_t* key_purity, Purity query, const Row& row) {
  bool nan = query == Purity::kNaN, infinite = query == Purity::kInfinite;
  const bool bias = in.bias_dtype != ATTN_NONE;
  if (facts.impure_keys != 0 || bias) {
    for (int k = G::rank(); k < row.n; k += G::kSize) {
      const int32_t j = row.key[k];
      const auto key = static_cast<Purity>(key_purity[j]);
      const double b = bias ? number_of(in.bias_dtype, in.bias, task.bias + j) : 0;
      nan |= key == Purity::kNaN || isnan(b);
      infinite |= key == Purity::kInfinite || isinf(b);
    }
  }
  nan = G::any(nan);
  infinite = G::any(infinite);
  return nan ? Purity::kNaN : infinite ? Purity::kInfinite : Purity::kFinite;
}

// q.k and what it is made of.
struct Product {
  double dot = 0, absolute = 0, running = 0;
  double aligned = 0;  // sum |q_t k_t| as the tensor core aligns it, if that is asked for
};

// The same chains as products.cc: one rounding a term, in the order of t.
template <bool kBf16, bool kAligned>
__device__ inline Product product_of(const RowsInput& in, const double* q, const uint16_t* key) {
  Product p;
  for (int t = 0; t < in.stride_qk; t += kPad) {
    p.running += fabs(p.dot);
    const uint4* from = reinterpret_cast<const uint4*>(key + t);
    const uint4 two[] = {from[0], from[1]};
    const uint32_t pairs[] = {two[0].x, two[0].y, two[0].z, two[0].w, two[1].x, two[1].y, two[1].z, two[1].w};
#pragma unroll
    for (int i = 0; i < kPad; ++i) {
      const double k = number<kBf16>(pairs[i / 2] >> (i % 2 * 16) & 0xffffu);
      p.dot = fma(q[t + i], k, p.dot);
      p.absolute = fma(fabs(q[t + i]), fabs(k), p.absolute);
      if constexpr (kAligned)
        p.aligned += counted(q[t + i], in.model.least_factor) * counted(k, in.model.least_factor);
    }
  }
  return p;
}

// x, err, delta, absolute of each key; m and the largest. row.overflowing: nothing can be said of the row.
template <class G, bool kBf16>
__device__ inline void find_scores(const RowsInput& in, const RowTask& task, const GroupFacts& facts,
                                   const double* key_norm, const double* q, Row& row) {
  const ErrorNumbers& model = in.model;
  const bool bias = in.bias_dtype != ATTN_NONE, adjusted = model.softcap > 0 || bias;
  const double scale = fabs(model.scale),
               least_key = __longlong_as_double(static_cast<int64_t>(facts.least_key));
  const bool aligned = least_key < model.least_factor || row.q_below_least;
  const bool flushed = model.flushes && (least_key < model.flushed_factor || row.q_below_flushed);
  const double blocks = ceil(model.dim_qk / kPad) * model.score_block;
  enum { kScore, kLowest, kDelta, kError, kAbsolute, kCapped, kMaxima };
  double most[kMaxima];
  for (double& one : most) one = -INFINITY;
  for (int k = G::rank(); k < row.n; k += G::kSize) {
    const int32_t j = row.key[k];
    const uint16_t* key = row.keys + static_cast<int64_t>(j) * in.stride_qk;
    const Product product =
        aligned ? product_of<kBf16, true>(in, q, key) : product_of<kBf16, false>(in, q, key);
    const double size = aligned ? product.aligned : product.absolute;
    double delta = model.ascending_dot && blocks < 1
                       ? (product.running + size) * (model.score_block / (1 - blocks))
                       : size * model.score_gamma;
    delta = scale * (delta + model.dim_qk * kFlush);
    if (model.flushes && scale < 2 * kFlush) delta += scale * product.absolute;
    if (flushed) delta += scale * kFlush * (row.q_norm + key_norm[j]);
    double x = product.dot * model.scale, tanh_size = 0;
    if (model.softcap > 0) {
      const double t = tanh(x / model.softcap);
      tanh_size = fabs(t);
      x = model.softcap * t;
    }
    const double capped = fabs(x), b = bias ? number_of(in.bias_dtype, in.bias, task.bias + j) : 0;
    x += b;
    double err = delta + ((model.fused ? 0 : 2 * kU) + (adjusted ? kU : 0)) * fabs(x);
    if (adjusted) err += 3 * kU * capped;
    if (bias) err += 3 * kU * fabs(b);
    if (model.softcap > 0) err += model.softcap * (model.eps_tanh * tanh_size + 1.4 * kU);
    if (model.folded_unit > 0) {
      err += scale * model.folded_unit * product.absolute;
      err += model.folded_tiny * key_norm[j];
    }
    row.x[k] = x;
    row.err[k] = err;
    row.delta[k] = delta;
    row.absolute[k] = product.absolute;
    const double mine[] = {x, -x, delta, err, product.absolute, adjusted ? capped : 0};
    for (int i = 0; i < kMaxima; ++i) most[i] = max(most[i], mine[i]);
  }
  G::over(most, Max());
  if (G::rank() == 0) {
    row.m = most[kScore];
    row.largest_delta = most[kDelta];
    row.largest_error = most[kError];
    const double misplaced =
        model.may_be_fused ? kU * (fabs(row.m) + row.largest_delta) * std::numbers::log2e : 0;
    row.overflowing =
        overflows(model, most[kAbsolute], most[kCapped], row.m, -most[kLowest] == row.m, misplaced);
    row.misplaced = exp2(misplaced);
  }
  G::sync();
}

// One thread; the tiles' own maxima, sums and costs are there. T, and what the sum loses to its additions.
__device__ inline double walk_tiles(const ErrorNumbers& model, Row& row) {
  const double most = model.sum_lanes > 0 ? most_additions(model) : 0;
  double lost = 0, all = 0;
  row.T = 0;
  for (int begin = 0, end; begin < row.tiles; begin = end) {
    Maximum so_far;
    double growths = 0, sum = 0;
    int last = -1;
    for (end = begin; end < row.tiles && row.tile[end].split == row.tile[begin].split; ++end) {
      Tile& tile = row.tile[end];
      if (tile.begin == tile.end) continue;
      // Nothing is rescaled by the first tile: there is nothing yet.
      const bool grows = last >= 0 && tile.maximum.high > so_far.low;
      so_far.take(tile.maximum);
      tile.max = so_far.exact;
      tile.uncertain = so_far.uncertain(model);
      growths += grows && model.max_rule == ATTN_MAX_RUNNING;
      tile.rescales = growths;  // those up to here, for now
      sum += tile.sum;
      all += tile.sum;
      lost += min(most, static_cast<double>(tile.end - tile.begin)) * sum;
      last = end;
    }
    for (int t = begin; t < end; ++t) {
      Tile& tile = row.tile[t];
      tile.rescales = growths - tile.rescales;
      tile.split_max = so_far.exact;
      tile.split_uncertain = so_far.uncertain(model);
      if (model.max_rule != ATTN_MAX_RUNNING) tile.max = tile.split_max, tile.uncertain = tile.split_uncertain;
      tile.last = t == last;
      if (t == last) row.last_uncertain = tile.uncertain;
    }
    row.T = max(row.T, growths);
  }
  return lost / all;
}

// The weights, l, the tiles in the order of work, and what the row's sums may be off by.
template <class G>
__device__ inline void find_tiles(const RowsInput& in, Row& row) {
  const ErrorNumbers& model = in.model;
  const int64_t block = model.mma_block, tile_k = model.tile_k;
  double sums[2] = {0, 0};  // l; blocks of the mma that hold a key, counted from the tile's first
  for (int k = G::rank(); k < row.n; k += G::kSize) {
    sums[0] += row.weight[k] = exp(row.x[k] - row.m);
    const int64_t j = row.key[k], before = k > 0 ? row.key[k - 1] : -1;
    sums[1] += k == 0 || before / tile_k != j / tile_k || before % tile_k / block != j % tile_k / block;
  }
  G::over(sums, Sum());
  const int64_t first = row.key[0] / tile_k, last = row.key[row.n - 1] / tile_k;
  const int tiles = walks(model) ? static_cast<int>(last - first + 1) : 0;
  const int lane = G::lane(), warp = G::warp();
  for (int t = warp; t < tiles; t += G::kWarps) {
    const int64_t number = model.key_order == ATTN_KEYS_DESCENDING ? last - t : first + t;
    const int begin = first_from(row.key, row.n, number * tile_k);
    const int end = first_from(row.key, row.n, (number + 1) * tile_k);
    Maximum maximum;
    double sum = 0, blocks = 0;
    for (int k = begin + lane; k < end; k += 32) {
      const double x = row.x[k], err = row.err[k];
      maximum.take({x, x - err, x + err});
      sum += row.weight[k];
      blocks += k == begin || row.key[k - 1] % tile_k / block != row.key[k] % tile_k / block;
    }
    maximum = {over_warp(maximum.exact, Max()), over_warp(maximum.low, Max()), over_warp(maximum.high, Max())};
    sum = over_warp(sum, Sum());
    blocks = over_warp(blocks, Sum());
    if (lane > 0) continue;
    Tile& tile = row.tile[t];
    tile.begin = begin;
    tile.end = end;
    tile.split = model.split_tiles > 0 ? number / model.split_tiles : 0;
    tile.maximum = maximum;
    tile.sum = sum;
    tile.cost = (end - begin) * model.product_unit + blocks * model.sum_unit;
  }
  G::sync();
  if (G::rank() == 0) {
    row.tiles = tiles;
    row.l = sums[0];
    row.costs = row.n * model.product_unit + sums[1] * model.sum_unit;
    const double lost = tiles > 0 ? walk_tiles(model, row) : 0;
    if (model.max_rule == ATTN_MAX_UNKNOWN) row.T = rescales_of(model, row.key[0], row.key[row.n - 1]);
    row.sum_gamma = sum_error(model, row.T, row.n, lost);
    const bool merged = model.splits > 1;
    row.merge_constant = merged ? merge_constant(model, row.m, row.n, row.sum_gamma) : 0;
    row.merge_slope = merged ? model.merge_rounds * (6 * kU + 2 * model.eps_exp_slope) : 0;
    row.terms = mean_terms(model, {row.T, row.sum_gamma, row.misplaced, row.largest_delta}, row.costs);
  }
  G::sync();
}

// row.centre and row.charge as RoundedP has them. Returns the sum of the charges; infinite: P is not known.
template <class G>
__device__ inline double round_p(const ErrorNumbers& model, Row& row) {
  if (!model.in_order() || !p_is_predicted(model)) return INFINITY;
  bool bad = false;
  for (int t = G::rank(); t < row.tiles; t += G::kSize) {
    Tile& tile = row.tile[t];
    if (tile.begin == tile.end) continue;
    const double y =
        uncertain_factor(model, tile.uncertain + tile.split_uncertain, tile.rescales, tile.split_max - tile.max,
                         row.merge_constant, row.merge_slope, row.m - tile.split_max + 2 * row.largest_error);
    tile.phi = expm1(y);
    tile.factor = exp(tile.max - row.m) / row.l;
    bad |= !(tile.phi < 1);
  }
  if (G::any(bad)) return INFINITY;
  double charges = 0;
  for (int t = G::warp(); t < row.tiles; t += G::kWarps) {
    const Tile& tile = row.tile[t];
    if (tile.begin == tile.end) continue;
    const KeyRounding rounding(model, tile.max, tile.uncertain, tile.factor, tile.phi);
    const double grown = row.m - tile.max < 300 ? exp(row.m - tile.max) : 0;
    for (int k = tile.begin + G::lane(); k < tile.end; k += 32) {
      // The weights are e^(x - m) already; where that lost digits it is done anew.
      double p = row.weight[k] * grown * model.p_scale;
      if (!(grown > 0 && row.weight[k] > 0x1p-500)) p = exp(-(tile.max - row.x[k])) * model.p_scale;
      const RoundedKey key = round_key(rounding, p, row.x[k], row.err[k], row.absolute[k]);
      bad |= key.bad;
      row.centre[k] = key.centre;
      row.charge[k] = key.charge;
      charges += key.charge;
    }
  }
  if (G::any(bad)) return INFINITY;
  if (G::rank() == 0) row.common = model.splits > 1 ? 0 : expm1(row.last_uncertain);
  return G::over(charges, Sum());
}

}  // namespace attnfuzz::cuda
