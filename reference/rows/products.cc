#include "reference/rows/products.h"

#include <algorithm>
#include <cstring>

#include "reference/numbers/levels.h"

namespace attnfuzz {
namespace {

template <int kWidth>
using Vector = double __attribute__((ext_vector_type(kWidth)));
using Floats = float __attribute__((ext_vector_type(kLanes)));

template <class Number, class V>
[[gnu::always_inline]] inline void load(const Number* from, V* to) {
  std::memcpy(to, from, sizeof *to);
}
template <class V>
[[gnu::always_inline]] inline void store(const V& from, double* to) {
  std::memcpy(to, &from, sizeof from);
}

// kRows queries times the keys of one panel, kWidth keys at a time.
template <int kWidth, int kRows>
[[gnu::always_inline]] inline void dot_panel(const double* panel, int64_t dim, int64_t at,
                                             const QueryRow* rows) {
  using V = Vector<kWidth>;
  for (int lane = 0; lane < kLanes; lane += kWidth) {
    V sum[kRows] = {}, running[kRows] = {}, key;
    for (int64_t first = 0; first < dim; first += kDotBlock) {
      for (int r = 0; r < kRows; ++r) running[r] += __builtin_elementwise_abs(sum[r]);
      for (int64_t t = first; t < std::min(dim, first + kDotBlock); ++t) {
        load(panel + t * kLanes + lane, &key);
        for (int r = 0; r < kRows; ++r) sum[r] = __builtin_elementwise_fma(V(rows[r].q[t]), key, sum[r]);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      store(sum[r], rows[r].dot + at + lane);
      store(running[r], rows[r].running + at + lane);
    }
  }
}

template <int kWidth, int kRows>
[[gnu::always_inline]] inline void size_panel(const double* panel, int64_t dim, int64_t at,
                                              const QueryRow* rows) {
  using V = Vector<kWidth>;
  for (int lane = 0; lane < kLanes; lane += kWidth) {
    V key, absolute[kRows] = {};
    for (int64_t t = 0; t < dim; ++t) {
      load(panel + t * kLanes + lane, &key);
      key = __builtin_elementwise_abs(key);
      for (int r = 0; r < kRows; ++r)
        absolute[r] = __builtin_elementwise_fma(V(rows[r].q_size[t]), key, absolute[r]);
    }
    for (int r = 0; r < kRows; ++r) store(absolute[r], rows[r].absolute + at + lane);
  }
}

template <int kWidth, int kRows, Term kTerm>
[[gnu::always_inline]] inline void weigh_span(const double* panel, const KeySpan& span,
                                              const WeightedRow* rows) {
  using V = Vector<kWidth>;
  for (int lane = 0; lane < kLanes; lane += kWidth) {
    V sum[kRows], mean[kRows], v;
    const double* weight[kRows];
    for (int r = 0; r < kRows; ++r) {
      load(rows[r].sum + lane, &sum[r]);
      if (kTerm == Term::kDistance) load(rows[r].mean + lane, &mean[r]);
      weight[r] = rows[r].weight + span.position;
    }
    const double* from = panel + span.key * kLanes + lane;
    for (int64_t k = 0; k < span.count; ++k) {
      load(from + k * kLanes, &v);
      if (kTerm == Term::kSize) v = __builtin_elementwise_abs(v);
      for (int r = 0; r < kRows; ++r) {
        const V term = kTerm == Term::kDistance ? __builtin_elementwise_abs(v - mean[r]) : v;
        sum[r] = __builtin_elementwise_fma(V(weight[r][k]), term, sum[r]);
      }
    }
    for (int r = 0; r < kRows; ++r) store(sum[r], rows[r].sum + lane);
  }
}

constexpr int64_t kChain = 32;  // additions in fp32; see kSizesRaised

// kRows rows of weights times the sizes of one span, all columns of the panel at a time.
template <int kRows>
[[gnu::always_inline]] inline void weigh_sized_span(const float* panel, const KeySpan& span,
                                                    const SizedRow* rows) {
  for (int64_t first = 0; first < span.count; first += kChain) {
    const int64_t last = std::min(span.count, first + kChain);
    const float* from = panel + span.key * kLanes;
    Floats sum[kRows] = {}, size;
    for (int64_t k = first; k < last; ++k) {
      load(from + k * kLanes, &size);
      for (int r = 0; r < kRows; ++r)
        sum[r] = __builtin_elementwise_fma(Floats(rows[r].weight[span.position + k]), size, sum[r]);
    }
    for (int r = 0; r < kRows; ++r) {
      Vector<kLanes> all;
      load(rows[r].sum, &all);
      all = __builtin_elementwise_fma(__builtin_convertvector(sum[r], Vector<kLanes>),
                                      Vector<kLanes>(kSizesRaised), all);
      store(all, rows[r].sum);
    }
  }
}

// Blocks of 6, 2 and 1 rows: 6 rows of two vectors leave registers for loads; with AVX-512, 12 rows do.
template <int kWidth, int kMost>
[[gnu::always_inline]] inline void all_scores(const Operands& operands, std::span<const int64_t> panels,
                                              std::span<const QueryRow> rows) {
  const int64_t dim = operands.dim_qk;
  for (size_t p = 0; p < panels.size(); ++p) {
    const double* panel = operands.keys.data() + panels[p] * dim * kLanes;
    const int64_t at = static_cast<int64_t>(p) * kLanes;
    const QueryRow *row = rows.data(), *end = row + rows.size();
    for (; end - row >= 6; row += 6) dot_panel<kWidth, 6>(panel, dim, at, row);
    for (; end - row >= 2; row += 2) dot_panel<kLanes, 2>(panel, dim, at, row);
    for (; end - row >= 1; row += 1) dot_panel<kLanes, 1>(panel, dim, at, row);
    row = rows.data();
    for (; end - row >= kMost; row += kMost) size_panel<kWidth, kMost>(panel, dim, at, row);
    for (; end - row >= 6; row += 6) size_panel<kWidth, 6>(panel, dim, at, row);
    for (; end - row >= 2; row += 2) size_panel<kLanes, 2>(panel, dim, at, row);
    for (; end - row >= 1; row += 1) size_panel<kLanes, 1>(panel, dim, at, row);
  }
}

template <int kWidth, Term kTerm>
[[gnu::always_inline]] inline void weigh_all(const double* panel, std::span<const KeySpan> spans,
                                             std::span<const WeightedRow> rows) {
  for (const KeySpan& span : spans) {
    const WeightedRow *row = rows.data(), *end = row + rows.size();
    for (; end - row >= 6; row += 6) weigh_span<kWidth, 6, kTerm>(panel, span, row);
    for (; end - row >= 2; row += 2) weigh_span<kLanes, 2, kTerm>(panel, span, row);
    for (; end - row >= 1; row += 1) weigh_span<kLanes, 1, kTerm>(panel, span, row);
  }
}

template <int kRows>
[[gnu::always_inline]] inline void weigh_all_sizes(const float* panel, std::span<const KeySpan> spans,
                                                   std::span<const SizedRow> rows) {
  for (const KeySpan& span : spans) {
    const SizedRow *row = rows.data(), *end = row + rows.size();
    for (; end - row >= kRows; row += kRows) weigh_sized_span<kRows>(panel, span, row);
    for (; end - row >= 2; row += 2) weigh_sized_span<2>(panel, span, row);
    for (; end - row >= 1; row += 1) weigh_sized_span<1>(panel, span, row);
  }
}

[[gnu::always_inline]] inline void end_all_tiles(std::span<KnownSums> sums, const double* costs, bool last) {
  for (KnownSums& sum : sums) {
    Vector<kLanes> tile, prefix, running;
    load(sum.tile.data(), &tile);
    load(sum.prefix.data(), &prefix);
    load(sum.running.data(), &running);
    running = __builtin_elementwise_fma(Vector<kLanes>(*costs++), __builtin_elementwise_abs(prefix), running);
    store(running, sum.running.data());
    prefix += tile;
    store(Vector<kLanes>(0.0), sum.tile.data());
    if (last) {
      load(sum.mean.data(), &tile);
      store(Vector<kLanes>(tile + prefix), sum.mean.data());
      prefix = 0;
    }
    store(prefix, sum.prefix.data());
  }
}

// The functions of one level. `width` doubles fill two of its registers; rows_at_once times kLanes floats
// fill as many registers as twelve rows of doubles.
#define ATTN_PRODUCT_LEVEL(level, name, width, rows_at_once, ...)                                            \
  struct level {                                                                                             \
    __VA_ARGS__ static void scores(const Operands& operands, std::span<const int64_t> panels,                \
                                   std::span<const QueryRow> rows) {                                         \
      all_scores<width, rows_at_once>(operands, panels, rows);                                               \
    }                                                                                                        \
    template <Term kTerm>                                                                                    \
    __VA_ARGS__ static void weigh(const double* panel, std::span<const KeySpan> spans,                       \
                                  std::span<const WeightedRow> rows) {                                       \
      weigh_all<width, kTerm>(panel, spans, rows);                                                           \
    }                                                                                                        \
    __VA_ARGS__ static void weigh_sizes(const float* panel, std::span<const KeySpan> spans,                  \
                                        std::span<const SizedRow> rows) {                                    \
      weigh_all_sizes<rows_at_once>(panel, spans, rows);                                                     \
    }                                                                                                        \
    __VA_ARGS__ static void end_tiles(std::span<KnownSums> sums, const double* costs, bool last) {           \
      end_all_tiles(sums, costs, last);                                                                      \
    }                                                                                                        \
    static constexpr ProductLevel kAll = {name,                                                              \
                                          scores,                                                            \
                                          {weigh<Term::kValue>, weigh<Term::kSize>, weigh<Term::kDistance>}, \
                                          weigh_sizes,                                                       \
                                          end_tiles};                                                        \
  }

ATTN_PRODUCT_LEVEL(Plain, "as compiled", 8, 6);
ATTN_PRODUCT_LEVEL(Avx2, "x86-64-v3", 8, 6, ATTN_AT_V3);
ATTN_PRODUCT_LEVEL(Avx512, "x86-64-v4", 16, 12, ATTN_AT_V4);

const ProductLevel& best_level() {
  static const ProductLevel best = product_levels().front();
  return best;
}

}  // namespace

std::vector<ProductLevel> product_levels() { return run_here<Avx512, Avx2, Plain>(); }

void score_products(const Operands& operands, std::span<const int64_t> panels, std::span<const QueryRow> rows) {
  best_level().scores(operands, panels, rows);
}

void weigh(Term term, const double* panel, std::span<const KeySpan> spans, std::span<const WeightedRow> rows) {
  best_level().weigh[static_cast<size_t>(term)](panel, spans, rows);
}

void end_tiles(std::span<KnownSums> sums, const double* costs, bool last) {
  best_level().end_tiles(sums, costs, last);
}

void weigh_sizes(const float* panel, std::span<const KeySpan> spans, std::span<const SizedRow> rows) {
  best_level().weigh_sizes(panel, spans, rows);
}

}  // namespace attnfuzz
