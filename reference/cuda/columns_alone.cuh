// O and its bounds of a row that has a block of its own (alone.cuh). Each tile's sum is in the order of its
// keys, and the tiles are added up in order, as mean.cuh does it; a row without tiles is summed by kUntiled
// keys. For the exact result and the sums that go into a bound, each
// part of the keys (Division) adds its own, and the parts are joined in order.
#pragma once

#include "reference/cuda/alone.cuh"
#include "reference/cuda/mean.cuh"

namespace attnfuzz::cuda {

// Keys that are taken together if the row has no tiles.
inline constexpr int kUntiled = 64;

// Each part's share of the bound and of the exact result.
struct Charges {
  double charged = 0, exact = 0;
  __device__ void join(const Charges& next) { charged += next.charged, exact += next.exact; }
};

// Sums a column over the keys. Returns its mean to part 0; adds the part's charges to *charges.
template <Format kFormat>
__device__ inline double sum_tiles(const RowsInput& in, const Bits<kFormat>* values, bool impure, bool known,
                                   const Division& by, bool mine, const Team& team, Charges* charges) {
  const Row& row = team.row[0];
  const int spans = team.tiles > 0 ? team.tiles : (team.keys + kUntiled - 1) / kUntiled,
            each = kRoomAlone / static_cast<int>(sizeof(double)) / by.places();
  const auto span_of = [&](int t) {
    return team.tiles > 0 ? team.span[t] : Span{t * kUntiled, min((t + 1) * kUntiled, team.keys), 0};
  };
  double mean = 0, prefix = 0;
  for (int from = 0; from < spans; from += each) {
    const int to = min(from + each, spans);
    double* const sums = team.room + by.place();
    for (int t = from + by.part(); mine && t < to; t += by.parts) {
      const Span span = span_of(t);
      double sum = 0;
#pragma unroll 8
      for (int k = span.begin; k < span.end; ++k) {
        const double v = read_value<kFormat>(values + k * int64_t{in.stride_v}, impure);
        const Pair factors = row.product[k];
        sum = fma(factors.a, v, sum);
        charges->charged = fma(factors.b, fabs(v), charges->charged);
        if (known) charges->exact = fma(row.part[k].a, v, charges->exact);
      }
      sums[(t - from) * by.places()] = sum;
    }
    __syncthreads();
    for (int t = from; mine && by.part() == 0 && t < to; ++t) {
      if (known) charges->charged = fma(row.tile[t].cost, fabs(prefix), charges->charged);
      prefix += sums[(t - from) * by.places()];
      if (t + 1 == spans || span_of(t + 1).split != span_of(t).split) mean += prefix, prefix = 0;
    }
    __syncthreads();
  }
  return mean;
}

// For Way::kPlain: the charges for the distance of the values from the mean, and the smallest and largest
// prefix.
struct Distances {
  double shifted = 0, prefix = 0, low = 0, high = 0;
  __device__ void join(const Distances& next) {
    low = -larger(-low, -(prefix + next.low));
    high = larger(high, prefix + next.high);
    shifted += next.shifted;
    prefix += next.prefix;
  }
};

template <Format kFormat>
__device__ inline Distances distances_of(const RowsInput& in, const Bits<kFormat>* values, bool impure,
                                         double mean, const Division& by, bool mine, const Team& team) {
  const Row& row = team.row[0];
  Distances found;
  if (by.parts > 1) {
    if (mine && by.part() == 0) team.room[by.place()] = mean;
    __syncthreads();
    if (mine) mean = team.room[by.place()];
  }
  const auto border = [&](int part) { return static_cast<int>(int64_t{team.keys} * part / by.parts); };
  if (mine) {
#pragma unroll 4
    for (int k = border(by.part()); k < border(by.part() + 1); ++k) {
      const double v = read_value<kFormat>(values + k * int64_t{in.stride_v}, impure);
      const Pair part = row.part[k];
      found.shifted = fma(part.b, fabs(v - mean), found.shifted);
      found.prefix += part.a * v;
      found.low = -larger(-found.low, -found.prefix);
      found.high = larger(found.high, found.prefix);
    }
  }
  join_parts(team, by, mine, found, [](Distances& to, const Distances& next) { to.join(next); });
  return found;
}

// Computes all columns of the block's row, if its way is `now`. With Way::kKnown it also writes the exact
// results.
template <Format kFormat>
__attribute__((noinline)) __device__ void find_columns_alone(const RowsInput& in, const RowsOutput& out,
                                                             int64_t at, bool impure, Way now, Team& team) {
  Row& row = team.row[0];
  if (row.way != now) return;
  const RowPlace to = place_of(in, out, at);
  const Division by(in.dim_v);
  const bool known = now == Way::kKnown;
  for (int first = 0; first * 32 < in.dim_v; first += by.together) {
    const int c = by.column(first);
    const bool mine = by.part() < by.parts && c < in.dim_v;
    // This pointer does not come from `team`, so the compiler knows that it is not to shared memory.
    const Bits<kFormat>* const values =
        numbers_of<kFormat>(in.v) + (int64_t{in.tasks[at].group} * in.keys + team.first) * in.stride_v + c;
    Charges charges;
    const double mean = sum_tiles<kFormat>(in, values, impure, known, by, mine, team, &charges);
    join_parts(team, by, mine, charges, [](Charges& all, const Charges& next) { all.join(next); });
    __syncthreads();
    Distances found;
    if (!known) found = distances_of<kFormat>(in, values, impure, mean, by, mine, team);
    if (mine && by.part() == 0) {
      if (known && to.exact) to.exact[c] = charges.exact;
      store_column(to, now, c, mean, charges.charged, found.shifted, larger(-found.low, found.high), row);
    }
    __syncthreads();
  }
}

}  // namespace attnfuzz::cuda
