// O and its bounds: weighted_mean.h and mean_columns.h. Each thread sums a column over the keys, in the
// host's order. If a block has one long row, its warps share the keys (alone.cuh).
#pragma once

#include "reference/call/expected.h"
#include "reference/cuda/alone.cuh"

namespace attnfuzz::cuda {

// The places for the results of one row.
struct RowPlace {
  double *o, *bound, *exact;
  uint8_t* rule;
};
__device__ inline RowPlace place_of(const RowsInput& in, const RowsOutput& out, int64_t task) {
  const int64_t column = task * in.dim_v;
  return {out.o + column, out.o_bound + column, out.o_exact ? out.o_exact + column : nullptr,
          out.o_rule + column};
}

// Reads a value; one that is not finite counts as 0 and is marked elsewhere.
__device__ inline double value_at(const RowsInput& in, const Team& team, int key, int c) {
  const double v = number_of(in.dtype, team.v, int64_t{key} * in.stride_v + c);
  return isfinite(v) ? v : 0;
}

// Sets the same expectation for the whole row.
template <class G>
__attribute__((noinline)) __device__ void fill(const RowsInput& in, const RowsOutput& out, int64_t task,
                                               RowState state, Due due, double lse, double bound) {
  const RowPlace to = place_of(in, out, task);
  for (int c = G::rank(); c < in.dim_v; c += G::size()) {
    to.o[c] = 0;
    to.bound[c] = bound;
    to.rule[c] = static_cast<uint8_t>(due);
    if (to.exact) to.exact[c] = 0;
  }
  if (G::rank() > 0) return;
  out.lse[task] = lse;
  out.lse_bound[task] = bound;
  out.state[task] = static_cast<uint8_t>(state);
}

// The largest |sum of w_j v_j| over the first keys.
__attribute__((noinline)) __device__ inline double largest_prefix(const RowsInput& in, const Row& row, const Team& team,
                                                                  int c) {
  double prefix = 0, most = 0;
  for (int k = row.lo; k < row.hi; ++k) {
    prefix += row.part[k].a * value_at(in, team, k, c);
    most = larger(most, fabs(prefix));
  }
  return most;
}

// long_products() of mean_columns.cc. `most`: largest_prefix().
__device__ inline double long_product(const MeanTerms& terms, double most, double size, double wrong) {
  const double plain = (1 + terms.p_unit) * size;
  return terms.mma_gamma * (1 + terms.product_gamma) * min(plain, 2 * most + terms.p_unit * size + wrong);
}

// Reads a value; one that is not finite counts as 0.
template <Format kFormat>
__device__ inline double read_value(const Bits<kFormat>* from, bool impure) {
  const uint32_t bits = *from;
  return impure && !is_finite_number<kFormat>(bits) ? 0 : lowered<kFormat>(bits) * kRaise<kFormat>;
}

// True if columns need largest_prefix().
__device__ inline bool needs_prefix(Way now, const Row& row) { return now == Way::kPlain && row.plain_shares.long_row; }

// Writes column c of a row: its value o and its bound, from what find_column() summed. `most`: largest_prefix(), if
// needed.
__device__ inline void store_column(const RowPlace& to, Way now, int c, double o, double charged, double shifted,
                                    double most, Row& row) {
  double bound;
  if (now == Way::kKnown) {
    const KnownShares& of = row.known_shares;
    bound = (charged * of.grown + of.of_o * fabs(o) + of.constant) / (1 - of.lost);
  } else {
    const PlainShares& of = row.plain_shares;
    double absolute = charged;
    if (of.long_row)
      absolute +=
          long_product(row.terms, most, absolute / (of.rounding + of.partial), shifted + row.rho_w * fabs(o));
    bound = (shifted + absolute + of.of_o * fabs(o) + of.constant) / row.denominator;
    if (to.exact) to.exact[c] = o;
  }
  bound = row.stored(row.terms, fabs(o), bound);
  to.o[c] = o;
  to.bound[c] = bound;
  to.rule[c] = static_cast<uint8_t>(Due::kNumber);
  if (!is_finite(bound)) atomicOr(&row.unbounded, 1u);
}

// Computes column c of rows from, from + 1, ... of the team, if their way is `now`.
template <int R, Format kFormat>
__device__ inline void find_column(const RowsInput& in, const RowsOutput& out, int64_t at, bool impure,
                                   int from, Way now, int c, Team& team) {
  static_assert(R <= kTeam, "rows beyond the team would be read");
  const int spans = max(team.tiles, 1);
  const int64_t stride = team.stride, stride_v = in.stride_v;
  const Pair* const products = team.row[from].product;  // of all rows, one after another
  const Pair* const parts = team.row[from].part;
  // This pointer does not come from `team`, so the compiler knows that it is not to shared memory.
  const Bits<kFormat>* const values =
      numbers_of<kFormat>(in.v) + (int64_t{in.tasks[at].group} * in.keys + team.first) * in.stride_v + c;
  double mean[R] = {}, prefix[R] = {}, charged[R] = {};
  for (int t = 0; t < spans; ++t) {
    const int begin = team.tiles > 0 ? team.span[t].begin : 0,
              end = team.tiles > 0 ? team.span[t].end : team.keys;
    double sum[R] = {};
#pragma unroll 8
    for (int k = begin; k < end; ++k) {
      const double v = read_value<kFormat>(values + k * stride_v, impure);
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const Pair by = products[r * stride + k];
        sum[r] = fma(by.a, v, sum[r]);
        charged[r] = fma(by.b, fabs(v), charged[r]);
      }
    }
    const bool last = t + 1 == spans || team.span[t + 1].split != team.span[t].split;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const double cost = now == Way::kKnown ? team.row[from + r].tile[t].cost : 0;
      charged[r] = fma(cost, fabs(prefix[r]), charged[r]);
      prefix[r] += sum[r];
      if (last) mean[r] += prefix[r], prefix[r] = 0;
    }
  }
  double shifted[R] = {};
  if (now == Way::kPlain) {
#pragma unroll 4
    for (int k = 0; k < team.keys; ++k) {
      const double v = read_value<kFormat>(values + k * stride_v, impure);
#pragma unroll
      for (int r = 0; r < R; ++r)
        if (k >= team.row[from + r].lo && k < team.row[from + r].hi)
          shifted[r] = fma(parts[r * stride + k].b, fabs(v - mean[r]), shifted[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < R; ++r) {
    Row& row = team.row[from + r];
    if (row.way != now) continue;
    const double most = needs_prefix(now, row) ? largest_prefix(in, row, team, c) : 0;
    store_column(place_of(in, out, at + from + r), now, c, mean[r], charged[r], shifted[r], most, row);
  }
}

// Computes all columns of the rows whose way is `now`.
template <Format kFormat>
__attribute__((noinline)) __device__ void find_columns(const RowsInput& in, const RowsOutput& out, int64_t at,
                                                       bool impure, Way now, Team& team) {
  // A warp takes 32 columns of as many rows as keep all warps busy.
  const int columns = (in.dim_v + 31) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int each = team.count == 1 ? 1 : columns > 2 && team.count > 2 ? 4 : columns > 1 ? 2 : 1;
  const int parts = (team.count + each - 1) / each;
  for (int job = static_cast<int>(threadIdx.x) / 32; job < columns * parts; job += static_cast<int>(blockDim.x) / 32) {
    const int c = job % columns * 32 + lane, from = job / columns * each;
    bool any = false;
    for (int r = from; r < min(from + each, team.count); ++r) any |= team.row[r].way == now;
    if (!any || c >= in.dim_v) continue;
    if (each == 4)
      find_column<4, kFormat>(in, out, at, impure, from, now, c, team);
    else if (each == 2)
      find_column<2, kFormat>(in, out, at, impure, from, now, c, team);
    else
      find_column<1, kFormat>(in, out, at, impure, from, now, c, team);
  }
}

// The exact results, without rounding, if P is known.
__attribute__((noinline)) __device__ inline void find_exact(const RowsInput& in, const RowsOutput& out,
                                                            int64_t at, const Team& team) {
  for (int64_t i = threadIdx.x; i < int64_t{team.count} * in.dim_v; i += blockDim.x) {
    const auto r = static_cast<int>(i / in.dim_v), c = static_cast<int>(i % in.dim_v);
    const Row& row = team.row[r];
    if (row.way != Way::kKnown) continue;
    double exact = 0;
#pragma unroll 4
    for (int k = row.lo; k < row.hi; ++k) exact = fma(row.part[k].a, value_at(in, team, k, c), exact);
    place_of(in, out, at + r).exact[c] = exact;
  }
}

// The smallest and the largest value of a column.
struct Ends {
  double low, high;
  __device__ void take(const Ends& of) {
    low = of.low < low ? of.low : low;
    high = larger(high, of.high);
  }
};

// min and max over the keys, widened by everything but the scores' error.
template <class G>
__attribute__((noinline)) __device__ void hull(const RowsInput& in, const Row& row, const Team& team,
                                               const RowPlace& to) {
  const Ends none = has_sink(row.sink) ? Ends{0, 0} : Ends{INFINITY, -INFINITY};
  each_column<G>(
      in, team, row.lo, row.hi, none,
      [&](Ends& ends, int k, int c) {
        if (row.weight[k] < 0) return;
        const double v = value_at(in, team, k, c);
        ends.take({v, v});
      },
      [](Ends& ends, const Ends& of) { ends.take(of); },
      [&](int c, const Ends& ends) {
        const double most = larger(fabs(ends.low), fabs(ends.high));
        to.o[c] = ends.low / 2 + ends.high / 2;
        to.bound[c] = hull_bound(row.terms, row.stored, ends.high / 2 - ends.low / 2, most, row.n);
        to.rule[c] = static_cast<uint8_t>(Due::kNumber);
        if (to.exact) to.exact[c] = to.o[c];
      });
}

// Columns that may have overflowed on the way: mark_overflow() of weighted_mean.cc. True if there are any.
template <class G>
__attribute__((noinline)) __device__ bool mark_overflow(const RowsInput& in, const Row& row, const Team& team,
                                                        const RowPlace& to) {
  struct Sizes {
    double sum, most;
  };
  bool any = false;
  each_column<G>(
      in, team, row.lo, row.hi, Sizes{0, 0},
      [&](Sizes& sizes, int k, int c) {
        if (row.weight[k] < 0) return;
        const double size = fabs(value_at(in, team, k, c));
        sizes.sum += row.part[k].a * size;
        sizes.most = larger(sizes.most, size);
      },
      [](Sizes& sizes, const Sizes& of) {
        sizes.sum += of.sum;
        sizes.most = larger(sizes.most, of.most);
      },
      [&](int c, const Sizes& sizes) {
        if (!column_overflows(row.terms, row.grown, row.l, sizes.sum, sizes.most)) return;
        any = true;
        to.bound[c] = INFINITY;
        to.rule[c] = static_cast<uint8_t>(Due::kAnything);
      });
  return G::any(any);
}

// Values that are not finite: mark_non_finite() of oracle.cc. `length`: the number of keys.
template <class G>
__attribute__((noinline)) __device__ bool mark_non_finite(const RowsInput& in, int length, const Row& row,
                                                          const Team& team, const RowPlace& to) {
  // The first keys with a visible NaN, with a visible infinity, and with any value that counts.
  struct First {
    int nan, infinity, any;
    __device__ void take(const First& of) {
      nan = min(nan, of.nan), infinity = min(infinity, of.infinity), any = min(any, of.any);
    }
  };
  bool open = false;
  each_column<G>(
      in, team, -team.first, length - team.first, First{INT32_MAX, INT32_MAX, INT32_MAX},
      [&](First& first, int k, int c) {
        const double v = number_of(in.dtype, team.v, int64_t{k} * in.stride_v + c);
        if (isfinite(v)) return;
        const bool visible = k >= row.lo && k < row.hi && row.weight[k] >= 0;
        if (!visible && in.model.isolates_masked_nan) return;
        first.take({visible && isnan(v) ? k : INT32_MAX, visible && !isnan(v) ? k : INT32_MAX, k});
      },
      [](First& first, const First& of) { first.take(of); },
      [&](int c, const First& first) {
        if (first.any == INT32_MAX || to.rule[c] == static_cast<uint8_t>(Due::kMustBeNaN)) return;
        const bool must = first.nan != INT32_MAX;
        to.rule[c] = static_cast<uint8_t>(must ? Due::kMustBeNaN : Due::kAnything);
        to.bound[c] = INFINITY;
        open |= first.infinity < first.nan;  // values behind the first NaN do not count
      });
  return G::any(open);
}

}  // namespace attnfuzz::cuda
