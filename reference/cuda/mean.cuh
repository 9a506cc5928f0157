// O, the LSE and their bounds: weighted_mean.h and mean_columns.h. Weights a key a thread,
// sums a column a thread, over the keys in their order as on the host.
#pragma once

#include "reference/cuda/row.cuh"
#include "reference/expected.h"

namespace attnfuzz::cuda {

// Where the results of one row go.
struct RowPlace {
  double *o, *bound, *exact;
  uint8_t* rule;
};

__device__ inline bool is_finite(double x) { return x * 0.0 == 0; }

// The largest |v| that a row sees, if there are values too large to charge for all.
template <class G, bool kBf16>
__device__ inline double most_flushed(const RowsInput& in, const GroupFacts& facts, const Row& row) {
  double most = __longlong_as_double(static_cast<int64_t>(facts.largest));
  if (row.terms.merged == 0 || !(most > 0x1p40)) return most;
  most = 0;
  for (int c = G::rank(); c < in.dim_v; c += G::kSize)
    for (int k = 0; k < row.n; ++k) most = max(most, fabs(value_at<kBf16>(in, row, k, c)));
  return G::over(most, Max());
}

// w_j, w_j rho_j, the LSE and its bound; whether the row says anything, and whether its P is known.
template <class G, bool kBf16>
__device__ inline void begin_mean(const RowsInput& in, const GroupFacts& facts, double charges, Row& row) {
  const ErrorNumbers& model = in.model;
  const MeanTerms& terms = row.terms;
  const double slope = 5 * kU + 2 * model.eps_exp_slope + row.merge_slope;
  const double constant = row.T * (model.eps_exp + 2 * kU) + row.merge_constant;
  const double lam = row.m + log(row.l), share = 1 / row.l;
  const auto allowance = [&](int k) {
    return row.err[k] + slope * (row.m - row.x[k] + row.delta[k] + row.largest_delta) + constant;
  };
  double largest = -INFINITY;
  for (int k = G::rank(); k < row.n; k += G::kSize) largest = max(largest, allowance(k));
  largest = G::over(largest, Max());
  double rho_w = 0;
  for (int k = G::rank(); k < row.n; k += G::kSize) {
    const double e = allowance(k), w = row.weight[k] * share;
    double error;
    if (largest <= 0.125) {
      error = e * (1 + e * (0.5 + e * (1.0 / 6 + e / 23)));
      error = w * (error + terms.eps_weight * (1 + error));
    } else {
      error = max(0.0, exp(row.x[k] - lam + e) * (1 + terms.eps_weight) - w);
    }
    row.weight[k] = w;
    row.error[k] = error;
    rho_w += error;
  }
  rho_w = G::over(rho_w, Sum());
  const double flushed = most_flushed<G, kBf16>(in, facts, row);
  if (G::rank() == 0) {
    row.lam = row.lse = lam;
    row.rho_w = rho_w;
    row.lost = lost_of(terms, rho_w, row.n, row.l);
    row.denominator = 1 - row.lost;
    row.stored = {merge_growth(terms, lam, largest),
                  terms.merged == 0 ? 0 : 2 * terms.merged * kFlush * flushed};
    row.informative =
        row.denominator > 0 && is_finite(rho_w) && is_finite(terms.product_gamma) && is_finite(terms.mma_gamma);
    row.lse_bound = row.informative ? lse_bound_of(terms, row.lost, row.m, row.l, lam) : INFINITY;
    row.known = row.informative && charges < terms.p_unit + rho_w && terms.tile_costs < 0.5 &&
                lost_of_known(row.denominator, row.common) < 1;
  }
  G::sync();
}

// Writes a column; false if its bound is not finite.
__device__ inline bool put_column(const Row& row, const RowPlace& to, int c, double mean, double bound) {
  const double stored = row.stored(row.terms, fabs(mean), bound);
  to.o[c] = mean;
  to.bound[c] = stored;
  return is_finite(stored);
}

// True if every bound is finite.
template <class G, bool kBf16>
__device__ inline bool known_columns(const RowsInput& in, const Row& row, const RowPlace& to) {
  const double lost = lost_of_known(row.denominator, row.common);
  const KnownCharges charges = charges_of_known(row.terms, lost, row.l);
  for (int t = G::warp(); t < row.tiles; t += G::kWarps) {
    const Tile& tile = row.tile[t];
    for (int k = tile.begin + G::lane(); k < tile.end; k += 32) {
      const double centre = row.centre[k], charge = row.charge[k];
      row.charge[k] = charge + charges.relative * (centre + charge) + charges.tiny + tile.cost * centre;
    }
  }
  G::sync();
  const KnownShares of = shares_of_known(row.terms, lost, row.n, row.l);
  bool finite = true;
  for (int c = G::rank(); c < in.dim_v; c += G::kSize) {
    double prefix = 0, mean = 0, exact = 0, charged = 0, running = 0;
    for (int t = 0; t < row.tiles; ++t) {
      const Tile& tile = row.tile[t];
      if (tile.begin == tile.end) continue;
      double sum = 0;
#pragma unroll 4
      for (int k = tile.begin; k < tile.end; ++k) {
        const double v = value_at<kBf16>(in, row, k, c);
        sum = fma(row.centre[k], v, sum);
        exact = fma(row.weight[k], v, exact);
        charged = fma(row.charge[k], fabs(v), charged);
      }
      running += tile.cost * fabs(prefix);
      prefix += sum;
      if (!tile.last) continue;
      mean += prefix;
      prefix = 0;
    }
    const double bound = ((charged + running) * of.grown + of.of_o * fabs(mean) + of.constant) / (1 - of.lost);
    finite &= put_column(row, to, c, mean, bound);
    to.exact[c] = exact;  // where P is predicted there is room
  }
  return !G::any(!finite);
}

// long_products() of mean_columns.cc.
template <bool kBf16>
__device__ inline double long_product(const RowsInput& in, const Row& row, int c, double size, double wrong) {
  const MeanTerms& terms = row.terms;
  double prefix = 0, most = 0;
  for (int k = 0; k < row.n; ++k) {
    prefix += row.weight[k] * value_at<kBf16>(in, row, k, c);
    most = max(most, fabs(prefix));
  }
  const double plain = (1 + terms.p_unit) * size;
  return terms.mma_gamma * (1 + terms.product_gamma) * min(plain, 2 * most + terms.p_unit * size + wrong);
}

template <class G, bool kBf16>
__device__ inline bool plain_columns(const RowsInput& in, const Row& row, const RowPlace& to) {
  const PlainShares of = shares_of_plain(row.terms, row.rho_w, row.denominator, row.n, row.l);
  for (int k = G::rank(); k < row.n; k += G::kSize)
    row.charge[k] = (of.rounding + of.partial) * (row.weight[k] + row.error[k]) + row.terms.p_tiny / row.l;
  G::sync();
  bool finite = true;
  for (int c = G::rank(); c < in.dim_v; c += G::kSize) {
    double mean = 0, absolute = 0, shifted = 0;
#pragma unroll 4
    for (int k = 0; k < row.n; ++k) {
      const double v = value_at<kBf16>(in, row, k, c);
      mean = fma(row.weight[k], v, mean);
      absolute = fma(row.charge[k], fabs(v), absolute);
    }
#pragma unroll 4
    for (int k = 0; k < row.n; ++k)
      shifted = fma(row.error[k], fabs(value_at<kBf16>(in, row, k, c) - mean), shifted);
    if (of.long_row)
      absolute += long_product<kBf16>(in, row, c, absolute / (of.rounding + of.partial),
                                      shifted + row.rho_w * fabs(mean));
    finite &= put_column(row, to, c, mean,
                         (shifted + absolute + of.of_o * fabs(mean) + of.constant) / row.denominator);
    if (to.exact) to.exact[c] = mean;
  }
  return !G::any(!finite);
}

// min and max over the keys, widened by everything but the scores' error.
template <class G, bool kBf16>
__device__ inline void hull(const RowsInput& in, const Row& row, const RowPlace& to) {
  for (int c = G::rank(); c < in.dim_v; c += G::kSize) {
    double low = INFINITY, high = -INFINITY;
    for (int k = 0; k < row.n; ++k) {
      const double v = value_at<kBf16>(in, row, k, c);
      low = min(low, v);
      high = max(high, v);
    }
    const double most = max(fabs(low), fabs(high));
    to.o[c] = low / 2 + high / 2;
    to.bound[c] = hull_bound(row.terms, row.stored, high / 2 - low / 2, most, row.n);
    if (to.exact) to.exact[c] = to.o[c];
  }
}

// Columns that may have overflowed on the way: mark_overflow() of weighted_mean.cc. True if there are any.
template <class G, bool kBf16>
__device__ inline bool mark_overflow(const RowsInput& in, const GroupFacts& facts, const Row& row,
                                     const RowPlace& to) {
  const double grown = partial_growth(row.terms);
  const double largest = __longlong_as_double(static_cast<int64_t>(facts.largest));
  if (!may_overflow(row.terms, grown, row.n, largest)) return false;
  bool any = false;
  for (int c = G::rank(); c < in.dim_v; c += G::kSize) {
    double sum = 0, most = 0;
    for (int k = 0; k < row.n; ++k) {
      const double size = fabs(value_at<kBf16>(in, row, k, c));
      sum += row.weight[k] * size;
      most = max(most, size);
    }
    if (!column_overflows(row.terms, grown, row.l, sum, most)) continue;
    any = true;
    to.bound[c] = INFINITY;
    to.rule[c] = static_cast<uint8_t>(Due::kAnything);
  }
  return G::any(any);
}

// Values that are not finite: mark_non_finite() of oracle.cc.
template <class G, bool kBf16>
__device__ inline bool mark_non_finite(const RowsInput& in, const GroupFacts& facts, int length, const Row& row,
                                       const RowPlace& to) {
  if (facts.impure_values == 0) return false;
  bool any = false;
  for (int c = G::rank(); c < in.dim_v; c += G::kSize) {
    int next = 0;
    for (int j = 0; j < length; ++j) {
      const double v = number<kBf16>(row.values[static_cast<int64_t>(j) * in.stride_v + c]);
      if (isfinite(v)) continue;
      while (next < row.n && row.key[next] < j) ++next;
      const bool visible = next < row.n && row.key[next] == j;
      if (!visible && in.model.isolates_masked_nan) continue;
      if (to.rule[c] == static_cast<uint8_t>(Due::kMustBeNaN)) continue;
      const bool must = visible && isnan(v);
      to.rule[c] = static_cast<uint8_t>(must ? Due::kMustBeNaN : Due::kAnything);
      to.bound[c] = INFINITY;
      any |= visible && !must;
    }
  }
  return G::any(any);
}

}  // namespace attnfuzz::cuda
