// The weights of a row, its tiles and its P: tile_walk.h, rounded_p.h and the first half of
// weighted_mean.h, with one key for each thread. A row belongs to a warp, or to the whole block if it is
// alone.
#pragma once

#include <numbers>

#include "reference/cuda/row.cuh"

namespace attnfuzz::cuda {

// Positions fit into 17 bits, so larger plan numbers need not be exact.
__device__ inline int32_t narrow(int64_t x) { return static_cast<int32_t>(min(x, int64_t{1} << 30)); }
// The mma blocks that hold a key at positions first..last, counted from each tile's first key.
__device__ inline int32_t blocks_of(int32_t first, int32_t last, int32_t tile_k, int32_t block) {
  const int32_t tiles = last / tile_k - first / tile_k, of_tile = (tile_k - 1) / block + 1;
  return tiles * of_tile + last % tile_k / block - first % tile_k / block + 1;
}

// Divides the team's keys into tiles in the order of work, and finds each row's part of them.
__device__ inline void divide_into_tiles(const ErrorNumbers& model, Team& team) {
  const int32_t tile_k = narrow(model.tile_k);
  const int32_t first = team.first / tile_k, last = (team.first + team.keys - 1) / tile_k;
  const int tiles = walks(model) && team.keys > 0 ? last - first + 1 : 0;
  const auto key_at = [&](int64_t position) {
    return static_cast<int32_t>(max(int64_t{0}, min(int64_t{team.keys}, position - team.first)));
  };
  for (int t = static_cast<int>(threadIdx.x); t < tiles; t += static_cast<int>(blockDim.x)) {
    const int64_t number = model.key_order == ATTN_KEYS_DESCENDING ? last - t : first + t;
    const Span span = {key_at(number * tile_k), key_at((number + 1) * tile_k),
                       model.split_tiles > 0 ? number / model.split_tiles : 0};
    team.span[t] = span;
    for (int r = 0; r < team.count; ++r) {
      const Row& row = team.row[r];
      Tile& tile = row.tile[t];
      tile.begin = min(max(span.begin, row.lo), row.hi);
      tile.end = max(tile.begin, min(span.end, row.hi));
      tile.n = 0;
      tile.cost = 0;
      tile.split = span.split;
    }
  }
  if (threadIdx.x == 0) team.tiles = tiles;
}

// Collects facts about all keys that the row sees, before any weight is known.
template <class G>
__device__ inline void survey(const RowsInput& in, int64_t task, const Team& team, Row& row) {
  const ErrorNumbers& model = in.model;
  const bool bias = in.bias_dtype != ATTN_NONE;
  double most[6] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
  double seen = 0, first = -INFINITY, last = -INFINITY;
  for (int k = row.lo + G::rank(); k < row.hi; k += G::size()) {
    const Pair score = row.product[k], part = row.part[k];
    if (score.b == kHidden) continue;
    const double b = bias ? number_of(in.bias_dtype, in.bias, in.tasks[task].bias + team.first + k) : 0;
    const double t = in.slopes ? added_by_slope(in, in.tasks[task], team.first + k).t : 0;
    const double mine[] = {score.a, -score.a, score.b, part.a, part.b, fabs(score.a - b - t) + fabs(t)};
#pragma unroll
    for (int i = 0; i < 6; ++i) most[i] = larger(most[i], mine[i]);
    seen += 1;
    first = larger(first, -k);
    last = k;
  }
  G::over(most, Max());
  double ends[2] = {first, last};
  if (has_holes(in)) {
    seen = G::over(seen, Sum());
    G::over(ends, Max());
  }
  if (G::rank() > 0) return;
  const bool some = has_holes(in) ? seen > 0 : row.hi > row.lo;
  row.n = has_holes(in) ? static_cast<int>(seen) : row.hi - row.lo;
  row.first = !some ? 0 : has_holes(in) ? static_cast<int>(-ends[0]) : row.lo;
  row.last = !some ? 0 : has_holes(in) ? static_cast<int>(ends[1]) : row.hi - 1;
  row.sink = in.tasks[task].sink;
  row.m = has_sink(row.sink) ? larger(most[0], row.sink) : most[0];
  row.farthest = larger(fabs(row.m), fabs(most[0]));
  row.least = -most[1];
  row.largest_error = most[2];
  row.largest_delta = most[3];
  row.sink_unit = model.may_be_fused ? 2 * kU * (fabs(row.m) + fabs(most[0]) + row.largest_delta) : 0;
  row.largest_absolute = most[4];
  // If the scale is folded into Q, the 16-bit query may overflow (earlier with log2 e folded in).
  const bool folded =
      model.folded_unit != 0 && row.q_most * fabs(model.scale) * std::numbers::log2e >= model.folded_overflow;
  const double misplaced =
      model.may_be_fused ? kU * (row.farthest + row.largest_delta) * std::numbers::log2e : 0;
  const double capped = model.softcap > 0 || bias || in.slopes ? most[5] : 0;
  // A slope that is not finite leaves a row open, even if it sees a NaN.
  const bool open = !isfinite(in.tasks[task].slope);
  row.nan = !open && (row.impure & kSeesNaN) != 0;
  row.infinite = (row.impure & kSeesInfinity) != 0 || folded || isnan(row.sink) || row.sink == INFINITY || open ||
                 overflows(model, row.largest_absolute, capped, row.m, row.least == row.m, misplaced);
  row.misplaced = exp2(misplaced);
  const bool shifted = bias && !in.slopes && !has_sink(row.sink) &&
                       absorbed(model, row.largest_absolute, row.largest_delta, row.m, row.least);
  row.shift = shifted ? row.m : 0;
  if (row.shift != 0) row.m = row.least = row.largest_delta = row.largest_error = 0;
}

// Sets the scores of a row whose bias absorbs them to 0, without errors.
template <class G>
__device__ inline void clear_scores(Row& row) {
  for (int k = row.lo + G::rank(); k < row.hi; k += G::size()) {
    if (row.product[k].b == kHidden) continue;
    row.product[k] = {};
    row.part[k].a = 0;
  }
  G::sync();
}

// Finds T, and returns what the sum loses to its additions. The tiles' own maxima, sums and costs are
// known. Run by one thread.
__device__ inline double walk_tiles(const ErrorNumbers& model, int tiles, Row& row) {
  const double most = model.sum_lanes > 0 ? most_additions(model) : 0;
  double lost = 0, all = 0, additions = 1;
  row.T = 0;
  for (int begin = 0, end; begin < tiles; begin = end) {
    Maximum so_far;
    double growths = 0, sum = 0;
    int last = -1;
    for (end = begin; end < tiles && row.tile[end].split == row.tile[begin].split; ++end) {
      Tile& tile = row.tile[end];
      if (tile.n == 0) continue;
      // The first tile rescales nothing.
      const bool grows = last >= 0 && tile.maximum.high > so_far.low;
      so_far.take(tile.maximum);
      tile.max = so_far.exact;
      tile.uncertain = so_far.uncertain(model);
      growths += grows && model.max_rule == ATTN_MAX_RUNNING;
      tile.rescales = growths;  // growths up to this tile; below, those after it
      sum += tile.sum;
      all += tile.sum;
      const double more = min(most, static_cast<double>(tile.n));
      lost += more * sum;
      additions += more;
      last = end;
    }
    for (int t = begin; t < end; ++t) {
      Tile& tile = row.tile[t];
      tile.rescales = limited_rescales(model, growths - tile.rescales);
      tile.split_max = so_far.exact;
      tile.split_uncertain = so_far.uncertain(model);
      if (model.max_rule != ATTN_MAX_RUNNING) tile.max = tile.split_max, tile.uncertain = tile.split_uncertain;
      if (t == last) row.last_uncertain = tile.uncertain;
    }
    row.T = larger(row.T, limited_rescales(model, growths));
  }
  return has_sink(row.sink) ? additions : lost / all;
}

// Sets the row's single numbers, from its sum l, its mma blocks that hold a key, and its largest error
// allowance. Run by one thread.
__device__ inline void set_row_numbers(const RowsInput& in, const Team& team, double l, double blocks,
                                       double largest, double slope, double merge_slope, Row& row) {
  const ErrorNumbers& model = in.model;
  const int32_t first = team.first + row.first, last = team.first + row.last;
  if (!has_holes(in)) blocks = blocks_of(first, last, narrow(model.tile_k), narrow(model.mma_block));
  const int sink = has_sink(row.sink);
  const double sink_weight = sink ? exp(row.sink - row.m) : 0;
  row.l = l + sink_weight;
  row.costs = row.n * model.product_unit + blocks * model.sum_unit;
  const double lost = team.tiles > 0 ? walk_tiles(model, team.tiles, row) : 0;
  if (model.max_rule == ATTN_MAX_UNKNOWN) row.T = rescales_of(model, first, last);
  row.T += sink;
  row.sum_gamma = sum_error(model, row.T, row.n + sink, lost);
  row.merge_constant = model.splits > 1 ? merge_constant(model, row.farthest, row.n + sink, row.sum_gamma) : 0;
  row.merge_slope = merge_slope;
  row.slope = slope;
  row.constant = row.T * (model.eps_exp + 2 * kU) + row.merge_constant;
  row.largest = largest + slope * row.largest_delta + row.constant;
  row.lam = row.m + log(row.l);
  row.terms = mean_terms(model, {row.T, row.sum_gamma, row.misplaced, row.largest_delta}, row.costs);
  if (sink) {
    const double e = 5 * kU * fabs(row.sink) + row.sink_unit + slope * (row.m - row.sink + row.largest_delta) +
                     row.constant;
    row.largest = larger(row.largest, e);
    row.terms.sink_error = sink_error_of(sink_weight / row.l, row.sink - row.lam, e, row.terms.eps_weight);
  }
  row.common = model.splits > 1 || team.tiles == 0 ? 0 : expm1(row.last_uncertain);
}

// True if a visible key is the first of its mma block.
__device__ inline bool begins_block(const Team& team, const Row& row, int32_t tile_k, int32_t block, int key) {
  const int32_t begin = max(row.lo, key - (team.first + key) % tile_k % block);
  for (int k = key - 1; k >= begin; --k)
    if (row.product[k].b != kHidden) return false;
  return true;
}

// Computes the weights, l, the tiles, and the errors of the row's sums.
template <class G>
__device__ inline void find_tiles(const RowsInput& in, const Team& team, Row& row) {
  const ErrorNumbers& model = in.model;
  const int32_t tile_k = narrow(model.tile_k), block = narrow(model.mma_block);
  const int lane = G::lane(), tiles = team.tiles;
  const bool holes = has_holes(in);
  const double merge_slope = model.splits > 1 ? model.merge_rounds * (6 * kU + 2 * model.eps_exp_slope) : 0,
               slope = 5 * kU + 2 * model.eps_exp_slope + merge_slope;
  double sums[2] = {};  // l; with holes, also the mma blocks that hold a key
  double largest = -INFINITY;
  struct {
    Maximum maximum;
    double sum = 0, blocks = 0, n = 0;
  } tile;
  const auto weigh = [&](int k) {
    const Pair score = row.product[k];
    if (score.b == kHidden) {
      row.weight[k] = -1;
      return;
    }
    const double w = exp(score.a - row.m);
    row.weight[k] = w;
    tile.sum += w;
    tile.maximum.take({score.a, score.a - score.b, score.a + score.b});
    largest = larger(largest, score.b + slope * (row.m - score.a + row.part[k].a));
    if (!holes) return;
    tile.n += 1;
    tile.blocks += begins_block(team, row, tile_k, block, k);
  };
  if (tiles == 0) {
    for (int k = row.lo + G::rank(); k < row.hi; k += G::size()) weigh(k);
    sums[0] = tile.sum;
    sums[1] = tile.blocks;
  }
  for (int t = G::warp(); t < tiles; t += G::warps()) {
    Tile& to = row.tile[t];
    const int begin = to.begin, end = to.end;
    if (begin == end) continue;
    tile = {};
    for (int k = begin + lane; k < end; k += 32) weigh(k);
    sums[0] += tile.sum;
    sums[1] += tile.blocks;
    const Maximum maximum = {over_warp(tile.maximum.exact, Max()), over_warp(tile.maximum.low, Max()),
                             over_warp(tile.maximum.high, Max())};
    const double sum = over_warp(tile.sum, Sum());
    double n = end - begin, blocks = 0;
    if (holes) n = over_warp(tile.n, Sum()), blocks = over_warp(tile.blocks, Sum());
    if (lane > 0) continue;
    if (!holes) blocks = blocks_of(team.first + begin, team.first + end - 1, tile_k, block);
    to.n = static_cast<int>(n);
    to.maximum = maximum;
    to.sum = sum;
    to.cost = n * model.product_unit + blocks * model.sum_unit;
  }
  G::over(sums, Sum());
  largest = G::over(largest, Max());
  if (G::rank() == 0) set_row_numbers(in, team, sums[0], sums[1], largest, slope, merge_slope, row);
  G::sync();
}

// Prepares rounded_p.h for each tile of a row. False: its P is not known.
template <class G>
__device__ inline bool begin_rounding(const ErrorNumbers& model, const Team& team, Row& row) {
  if (!model.in_order() || !p_is_predicted(model) || team.tiles == 0 || has_sink(row.sink)) return false;
  bool bad = false;
  for (int t = G::rank(); t < team.tiles; t += G::size()) {
    Tile& tile = row.tile[t];
    if (tile.n == 0) continue;
    const double y =
        uncertain_factor(model, tile.uncertain + tile.split_uncertain, tile.rescales, tile.split_max - tile.max,
                         row.merge_constant, row.merge_slope, row.m - tile.split_max + 2 * row.largest_error);
    tile.phi = expm1(y);
    tile.factor = exp(tile.max - row.m) / row.l;
    bad |= !(tile.phi < 1);
  }
  return !G::any(bad);
}

// w_j and w_j rho_j of one key, in a row whose e_j are at most `largest`.
__device__ inline Pair weight_of(const Row& row, double share, Pair score, double delta, double weight) {
  const double e = score.b + row.slope * (row.m - score.a + delta + row.largest_delta) + row.constant,
               w = weight * share;
  double error;
  if (row.largest <= 0.125) {
    error = e * (1 + e * (0.5 + e * (1.0 / 6 + e / 23)));
    error = w * (error + row.terms.eps_weight * (1 + error));
  } else {
    error = larger(0, exp(score.a - row.lam + e) * (1 + row.terms.eps_weight) - w);
  }
  return {w, error};
}

// The largest |v| that a row sees, if some values are too large to charge all keys for them.
template <class G>
__attribute__((noinline)) __device__ double most_seen(const RowsInput& in, const Team& team, const Row& row) {
  double most = 0;
  for (int c = G::rank(); c < in.dim_v; c += G::size()) {
    for (int k = row.lo; k < row.hi; ++k) {
      const double v = number_of(in.dtype, team.v, int64_t{k} * in.stride_v + c);
      if (row.weight[k] >= 0 && isfinite(v)) most = larger(most, fabs(v));
    }
  }
  return G::over(most, Max());
}

// Sets the row's bounds that do not depend on a column, and chooses how its columns are computed. `flushed`:
// the largest |v| that a flushed weight may multiply; `p_known`: every rounded key is certain. Run by one
// thread.
__device__ inline void set_bounds(double rho_w, double charges, double flushed, bool p_known, Row& row) {
  const MeanTerms& terms = row.terms;
  row.rho_w = rho_w;
  row.charges = charges;
  row.lost = lost_of(terms, row.rho_w, row.n, row.l);
  row.denominator = 1 - row.lost;
  row.stored = {merge_growth(terms, row.lam, row.largest, row.lost),
                terms.merged == 0 ? 0 : 2 * terms.merged * kFlush * flushed};
  row.informative = row.denominator > 0 && is_finite(row.rho_w) && is_finite(terms.product_gamma) &&
                    is_finite(terms.mma_gamma);
  row.lse_bound = row.informative ? lse_bound_of(terms, row.lost, row.m, row.l, row.lam) : INFINITY;
  if (row.shift != 0) row.lse_bound = lse_bound_at(row.lse_bound, row.shift, row.lam + row.shift);
  const double lost = lost_of_known(row.denominator, row.common);
  row.known = row.informative && p_known && row.charges < terms.p_unit + row.rho_w && terms.tile_costs < 0.5 &&
              lost < 1;
  row.known_charges = charges_of_known(terms, lost, row.l);
  row.known_shares = shares_of_known(terms, lost, row.n, row.l);
  row.plain_shares = shares_of_plain(terms, row.rho_w, row.denominator, row.n, row.l);
  row.grown = partial_growth(terms);
  row.way = row.known ? Way::kKnown : row.informative ? Way::kPlain : Way::kHull;
}

// Computes w_j, w_j rho_j, the LSE and its bound, and chooses how the columns are computed. If P is known,
// also c_j and its charge.
template <class G>
__device__ inline void begin_mean(const RowsInput& in, const GroupFacts& facts, const Team& team, Row& row) {
  const ErrorNumbers& model = in.model;
  const bool rounded = begin_rounding<G>(model, team, row);
  const double share = 1 / row.l;
  double sums[2] = {};  // rho_w, charges
  bool bad = false;
  if (!rounded) {
    for (int k = row.lo + G::rank(); k < row.hi; k += G::size()) {
      const double weight = row.weight[k];
      const Pair of = weight < 0 ? Pair{} : weight_of(row, share, row.product[k], row.part[k].a, weight);
      row.part[k] = of;
      sums[0] += of.b;
    }
  }
  for (int t = G::warp(); t < team.tiles && rounded; t += G::warps()) {
    const Tile& tile = row.tile[t];
    if (tile.begin == tile.end) continue;
    const KeyRounding rounding(model, tile.max, tile.uncertain, tile.factor, tile.phi);
    const double grown = row.m - tile.max < 300 ? exp(row.m - tile.max) : 0;
    for (int k = tile.begin + G::lane(); k < tile.end; k += 32) {
      const Pair score = row.product[k], part = row.part[k];
      const double weight = row.weight[k];
      if (weight < 0) {
        row.product[k] = row.part[k] = {};
        continue;
      }
      // The weights are e^(x - m) already. If that lost digits, they are computed again.
      double p = weight * grown * model.p_scale;
      if (!(grown > 0 && weight > 0x1p-500)) p = exp(-(tile.max - score.a)) * model.p_scale;
      const RoundedKey key = round_key(rounding, p, score.a, score.b, part.b);
      const Pair of = weight_of(row, share, score, part.a, weight);
      bad |= key.bad;
      row.product[k] = {key.centre, key.charge};
      row.part[k] = of;
      sums[0] += of.b;
      sums[1] += key.charge;
    }
  }
  G::over(sums, Sum());
  bad = G::any(bad) || !rounded;
  double flushed = __longlong_as_double(static_cast<int64_t>(facts.largest));
  if (row.terms.merged != 0 && flushed > 0x1p40) flushed = most_seen<G>(in, team, row);
  if (G::rank() == 0) set_bounds(sums[0] + row.terms.sink_error, sums[1], flushed, !bad, row);
  G::sync();
}

// Stores the factors of values and of their sizes.
template <class G>
__attribute__((noinline)) __device__ void charge_keys(const Team& team, Row& row) {
  if (row.way == Way::kKnown) {
    const KnownCharges charges = row.known_charges;
    for (int t = G::warp(); t < team.tiles; t += G::warps()) {
      const double relative = charges.relative + row.tile[t].cost;
      const int end = row.tile[t].end;
      for (int k = row.tile[t].begin + G::lane(); k < end; k += 32) {
        const Pair key = row.product[k];
        if (row.weight[k] >= 0)
          row.product[k].b = key.b + charges.relative * key.b + relative * key.a + charges.tiny;
      }
    }
  }
  if (row.way == Way::kPlain) {
    for (int k = row.lo + G::rank(); k < row.hi; k += G::size()) {
      const Pair key = row.part[k];
      row.product[k] = {key.a, row.weight[k] >= 0 ? row.plain_shares.charge(key.a + key.b) : 0};
    }
  }
  // Sets the factors of keys that only other rows of the team see to 0.
  if (row.way == Way::kKnown || row.way == Way::kPlain) {
    for (int k = G::rank(); k < team.keys; k += G::size())
      if (k < row.lo || k >= row.hi) row.product[k] = {};
  }
  G::sync();
}

// Computes all of a row except its columns; row.way says how they are computed. False: all columns have the
// same expectation.
template <class G>
__device__ inline bool weigh(const RowsInput& in, int64_t task, const GroupFacts& facts, const Team& team,
                             Row& row) {
  survey<G>(in, task, team, row);
  G::sync();
  if (row.n == 0 || row.nan || row.infinite) return false;
  if (row.shift != 0) clear_scores<G>(row);
  find_tiles<G>(in, team, row);
  begin_mean<G>(in, facts, team, row);
  charge_keys<G>(team, row);
  return true;
}

}  // namespace attnfuzz::cuda
