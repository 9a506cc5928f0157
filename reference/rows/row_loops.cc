#include "reference/rows/row_loops.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "reference/numbers/levels.h"

namespace attnfuzz {
namespace {

constexpr int64_t kWidth = 16;
constexpr double kInfinite = std::numeric_limits<double>::infinity();
using V = double __attribute__((ext_vector_type(kWidth)));
using Bits = int64_t __attribute__((ext_vector_type(kWidth)));
using Floats = float __attribute__((ext_vector_type(kWidth)));
// The ABI of vector arguments depends on the level, but everything here is inlined.
#pragma clang diagnostic ignored "-Wpsabi"

// Loads sixteen numbers from `at` on. A shorter array is loaded whole and filled up with `rest`.
[[gnu::always_inline]] inline void load(const double* x, int64_t at, int64_t n, double rest, V* to) {
  if (n >= kWidth) {
    std::memcpy(to, x + at, sizeof *to);
    return;
  }
  *to = rest;
  for (int64_t i = 0; i < n; ++i) (*to)[i] = x[i];
}
template <class Vector, class Number>
[[gnu::always_inline]] inline void store(const Vector& from, int64_t at, int64_t n, Number* x) {
  if (n >= kWidth) {
    std::memcpy(x + at, &from, sizeof from);
    return;
  }
  for (int64_t i = 0; i < n; ++i) x[i] = from[i];
}

// Calls body(at, done) for sixteen numbers from `at` on, of which the first `done` were processed before:
// if n is no multiple of sixteen, the last block begins earlier.
template <class Body>
[[gnu::always_inline]] inline void sixteens(int64_t n, const Body& body) {
  int64_t at = 0;
  for (; at + kWidth <= n; at += kWidth) body(at, 0);
  if (at < n) body(n >= kWidth ? n - kWidth : 0, n >= kWidth ? at + kWidth - n : 0);
}
constexpr Bits kLane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
// Keeps lanes from `done` on; the others become 0.
[[gnu::always_inline]] inline void drop(int64_t done, V* x) { *x = kLane >= done ? *x : V(0.0); }

[[gnu::always_inline]] inline double sum_of(const V& x) {
  const auto eight = x.lo + x.hi;
  const auto four = eight.lo + eight.hi;
  const auto two = four.lo + four.hi;
  return two.x + two.y;
}
// Skips NaN, as std::max(*most, x) does.
[[gnu::always_inline]] inline void raise(const V& x, V* most) { *most = x > *most ? x : *most; }
[[gnu::always_inline]] inline double largest_of(const V& x) {
  const auto eight = x.lo > x.hi ? x.lo : x.hi;
  const auto four = eight.lo > eight.hi ? eight.lo : eight.hi;
  const auto two = four.lo > four.hi ? four.lo : four.hi;
  return std::max<double>(two.x, two.y);
}
[[gnu::always_inline]] inline V fma(const V& a, const V& b, const V& c) {
  return __builtin_elementwise_fma(a, b, c);
}

// e^x = 2^k e^r with k = round(x log2 e), so |r| <= ln 2 / 2. There the series up to r^13 / 13! errs by
// 4e-18 of e^r, and all of Horner's steps but the last two act on small parts of it.
[[gnu::always_inline]] inline void exponential(const V& x, V* to) {
  constexpr double kLeast = -708, kMost = 709;
  constexpr double kLog2E = 0x1.71547652b82fep0;
  // ln 2 in two parts. The first has 33 bits, so its products with k are exact.
  constexpr double kLn2High = 0x1.62e42fefp-1, kLn2Low = 0x1.473de6af278edp-34;
  constexpr double kMagic = 0x1.8p52;  // adding it rounds to an integer, held in the last bits
  constexpr double kSeries[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                                1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
                                1.0 / 120,        1.0 / 24,        1.0 / 6,        0.5};
  const V inside = __builtin_elementwise_min(__builtin_elementwise_max(x, V(kLeast)), V(kMost));
  const V shifted = fma(inside, kLog2E, kMagic);
  const V k = shifted - kMagic;
  const V r = fma(k, -kLn2Low, fma(k, -kLn2High, inside));
  V sum = kSeries[0];
  for (size_t t = 1; t < std::size(kSeries); ++t) sum = fma(sum, r, kSeries[t]);
  sum = fma(r * r, sum, r) + 1;
  // Multiplies by 2^k through the exponent.
  const Bits exponent = __builtin_bit_cast(Bits, shifted) << 52;
  V out = __builtin_bit_cast(V, __builtin_bit_cast(Bits, sum) + exponent);
  out = x < kLeast ? V(0.0) : out;
  out = x > kMost ? V(kInfinite) : out;
  *to = x == x ? out : x;
}

[[gnu::always_inline]] inline double exponentials(const double* x, int64_t n, double subtracted, double* out) {
  V all = 0;
  sixteens(n, [&](int64_t at, int64_t done) __attribute__((always_inline)) {
    V some;
    load(x, at, n, subtracted, &some);
    some -= subtracted;
    exponential(some, &some);
    store(some, at, n, out);
    if (done > 0) drop(done, &some);
    if (n < kWidth) some = kLane < n ? some : V(0.0);
    all += some;
  });
  return sum_of(all);
}

[[gnu::always_inline]] inline double sum(const double* x, int64_t n) {
  V all = 0;
  sixteens(n, [&](int64_t at, int64_t done) __attribute__((always_inline)) {
    V some;
    load(x, at, n, 0, &some);
    if (done > 0) drop(done, &some);
    all += some;
  });
  return sum_of(all);
}

[[gnu::always_inline]] inline ScoreExtent scores(const double* dot, const double* size, const double* running,
                                                 int64_t n, const ScoreFactors& of, double* x, double* delta,
                                                 double* error) {
  const double tau = __builtin_elementwise_abs(of.scale);
  V largest = -kInfinite, lowest = -kInfinite, most_delta = -kInfinite, most = -kInfinite;
  sixteens(n, [&](int64_t at, int64_t) __attribute__((always_inline)) {
    V products, sizes, before = 0;
    load(dot, at, n, dot[0], &products);
    load(size, at, n, size[0], &sizes);
    if (running) load(running, at, n, running[0], &before);
    const V score = products * of.scale;
    const V off = tau * fma(sizes + before, of.factor, of.least);
    raise(score, &largest);
    raise(-score, &lowest);
    raise(off, &most_delta);
    raise(sizes, &most);
    store(score, at, n, x);
    store(off, at, n, delta);
    store(fma(__builtin_elementwise_abs(score), of.unit, off), at, n, error);
  });
  return {largest_of(largest), -largest_of(lowest), largest_of(most_delta), largest_of(most)};
}

[[gnu::always_inline]] inline ScoreExtent extent(const double* x, const double* delta, const double* absolute,
                                                 int64_t n) {
  V largest = -kInfinite, lowest = -kInfinite, most_delta = -kInfinite, most = -kInfinite;
  sixteens(n, [&](int64_t at, int64_t) __attribute__((always_inline)) {
    V some;
    load(x, at, n, x[0], &some);
    raise(some, &largest);
    raise(-some, &lowest);
    load(delta, at, n, delta[0], &some);
    raise(some, &most_delta);
    load(absolute, at, n, absolute[0], &some);
    raise(some, &most);
  });
  return {largest_of(largest), -largest_of(lowest), largest_of(most_delta), largest_of(most)};
}

[[gnu::always_inline]] inline void errors(const double* x, const double* delta, int64_t n, double unit,
                                          double* error) {
  sixteens(n, [&](int64_t at, int64_t) __attribute__((always_inline)) {
    V some, more;
    load(x, at, n, 0, &some);
    load(delta, at, n, 0, &more);
    store(fma(__builtin_elementwise_abs(some), unit, more), at, n, error);
  });
}

[[gnu::always_inline]] inline Maximum reach(const double* x, const double* error, int64_t n,
                                            double* largest_error) {
  V exact = -kInfinite, low = exact, high = exact, most = exact;
  sixteens(n, [&](int64_t at, int64_t) __attribute__((always_inline)) {
    V score, off;
    load(x, at, n, x[0], &score);
    load(error, at, n, error[0], &off);
    raise(score, &exact);
    raise(score - off, &low);
    raise(score + off, &high);
    raise(off, &most);
  });
  *largest_error = largest_of(most);
  return {largest_of(exact), largest_of(low), largest_of(high)};
}

[[gnu::always_inline]] inline double allowances(const double* x, const double* delta, const double* error,
                                                int64_t n, double m, double largest_delta, double per_range,
                                                double constant, double* e) {
  V most = -kInfinite;
  sixteens(n, [&](int64_t at, int64_t) __attribute__((always_inline)) {
    V score, product, off;
    load(x, at, n, x[0], &score);
    load(delta, at, n, delta[0], &product);
    load(error, at, n, error[0], &off);
    const V all = fma(m - score + product + largest_delta, per_range, off) + constant;
    raise(all, &most);
    store(all, at, n, e);
  });
  return largest_of(most);
}

[[gnu::always_inline]] inline bool round_tile(const KeyRounding& tile, const double* weight, double grown,
                                              const double* x, const double* error, const double* absolute,
                                              int64_t n, double* centre, double* charge) {
  const KeyRounding of = tile;
  int64_t bad = 0;
  // No branches: as many keys at once as a register holds.
  for (int64_t k = 0; k < n; ++k) {
    const RoundedKey key = round_key(of, weight[k] * grown * of.scale, x[k], error[k], absolute[k]);
    bad |= key.bad;
    centre[k] = key.centre;
    charge[k] = key.charge;
  }
  return bad == 0;
}

// An allowance is at most 1/8, where the series for e^x - 1 is never too small.
[[gnu::always_inline]] inline double weigh(const double* weight, const double* allowance, int64_t n, double l,
                                           double eps_weight, double* w, double* error) {
  const double part = 1 / l;
  V all = 0;
  sixteens(n, [&](int64_t at, int64_t done) __attribute__((always_inline)) {
    V some, e;
    load(weight, at, n, 0, &some);
    load(allowance, at, n, 0, &e);
    some *= part;
    V rho = e * fma(e, fma(e, fma(e, 1.0 / 23, 1.0 / 6), 0.5), 1.0);
    rho = fma(1 + rho, eps_weight, rho) * some;
    store(some, at, n, w);
    store(rho, at, n, error);
    if (done > 0) drop(done, &rho);
    all += rho;
  });
  return sum_of(all);
}

[[gnu::always_inline]] inline void charges(const double* centre, const double* charge, int64_t n,
                                           double relative, double tiny, double cost, double* all,
                                           double* least, double* most) {
  V low = -*least, high = *most;
  sixteens(n, [&](int64_t at, int64_t) __attribute__((always_inline)) {
    V c, of;
    load(centre, at, n, centre[0], &c);
    load(charge, at, n, charge[0], &of);
    const V some = fma(c, cost, fma(c + of, relative, of) + tiny);
    raise(-some, &low);
    raise(some, &high);
    store(some, at, n, all);
  });
  *least = -largest_of(low);
  *most = largest_of(high);
}

[[gnu::always_inline]] inline void floats(const double* x, int64_t n, double scale, float* out) {
  sixteens(n, [&](int64_t at, int64_t) __attribute__((always_inline)) {
    V some;
    load(x, at, n, 0, &some);
    store(__builtin_convertvector(some * scale, Floats), at, n, out);
  });
}

[[gnu::always_inline]] inline double sizes(const double* x, int64_t n, double scale, float* out) {
  V low = -kInfinite;
  sixteens(n, [&](int64_t at, int64_t) __attribute__((always_inline)) {
    V some;
    load(x, at, n, 0, &some);
    some = __builtin_elementwise_abs(some) * scale;
    store(__builtin_convertvector(some, Floats), at, n, out);
    raise(some == 0 ? V(-kInfinite) : -some, &low);
  });
  return -largest_of(low);
}

// All loops, compiled for one level.
#define ATTN_ROW_LOOPS(level, name, ...)                                                   \
  struct level {                                                                           \
    template <auto loop>                                                                   \
    struct Of;                                                                             \
    template <class Result, class... Arguments, Result (*loop)(Arguments...)>              \
    struct Of<loop> {                                                                      \
      __VA_ARGS__ static Result run(Arguments... arguments) { return loop(arguments...); } \
    };                                                                                     \
    static constexpr RowLoops kAll = {name,                                                \
                                      Of<exponentials>::run,                               \
                                      Of<sum>::run,                                        \
                                      Of<scores>::run,                                     \
                                      Of<extent>::run,                                     \
                                      Of<errors>::run,                                     \
                                      Of<reach>::run,                                      \
                                      Of<allowances>::run,                                 \
                                      Of<round_tile>::run,                                 \
                                      Of<weigh>::run,                                      \
                                      Of<charges>::run,                                    \
                                      Of<floats>::run,                                     \
                                      Of<sizes>::run};                                     \
  }

ATTN_ROW_LOOPS(Plain, "as compiled");
ATTN_ROW_LOOPS(Avx2, "x86-64-v3", ATTN_AT_V3);
ATTN_ROW_LOOPS(Avx512, "x86-64-v4", ATTN_AT_V4);

}  // namespace

std::vector<RowLoops> row_loop_levels() { return run_here<Avx512, Avx2, Plain>(); }

const RowLoops& row_loops() {
  static const RowLoops best = row_loop_levels().front();
  return best;
}

}  // namespace attnfuzz
