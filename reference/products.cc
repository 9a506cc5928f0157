#include "reference/products.h"

#include <algorithm>
#include <cstring>

namespace attnfuzz {
namespace {

template <int kWidth>
using Vector = double __attribute__((ext_vector_type(kWidth)));

template <class V>
[[gnu::always_inline]] inline void load(const double* from, V* to) {
  std::memcpy(to, from, sizeof *to);
}
template <class V>
[[gnu::always_inline]] inline void store(const V& from, double* to) {
  std::memcpy(to, &from, sizeof from);
}

// kRows queries times the keys of one panel, kWidth keys at a time.
template <int kWidth, int kRows>
[[gnu::always_inline]] inline void score_panel(const double* panel, int64_t dim, int64_t at,
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
    V absolute[kRows] = {};
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

// Rows in blocks of 6, 2 and 1: 6 rows of two vectors leave registers for what is loaded.
template <int kWidth>
[[gnu::always_inline]] inline void all_scores(const Operands& operands, std::span<const int64_t> panels,
                                              std::span<const QueryRow> rows) {
  const int64_t dim = operands.dim_qk;
  for (size_t p = 0; p < panels.size(); ++p) {
    const double* panel = operands.keys.data() + panels[p] * dim * kLanes;
    const int64_t at = static_cast<int64_t>(p) * kLanes;
    const QueryRow *row = rows.data(), *end = row + rows.size();
    for (; end - row >= 6; row += 6) score_panel<kWidth, 6>(panel, dim, at, row);
    for (; end - row >= 2; row += 2) score_panel<kLanes, 2>(panel, dim, at, row);
    for (; end - row >= 1; row += 1) score_panel<kLanes, 1>(panel, dim, at, row);
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

// The functions of one level; `width` numbers are two of its registers.
#define ATTN_PRODUCT_LEVEL(level, name, width, ...)                                           \
  struct level {                                                                              \
    __VA_ARGS__ static void scores(const Operands& operands, std::span<const int64_t> panels, \
                                   std::span<const QueryRow> rows) {                          \
      all_scores<width>(operands, panels, rows);                                              \
    }                                                                                         \
    template <Term kTerm>                                                                     \
    __VA_ARGS__ static void weigh(const double* panel, std::span<const KeySpan> spans,        \
                                  std::span<const WeightedRow> rows) {                        \
      weigh_all<width, kTerm>(panel, spans, rows);                                            \
    }                                                                                         \
    static constexpr ProductLevel kAll = {                                                    \
        name, scores, {weigh<Term::kValue>, weigh<Term::kSize>, weigh<Term::kDistance>}};     \
  }

ATTN_PRODUCT_LEVEL(Plain, "as compiled", 8);
#ifdef __x86_64__
ATTN_PRODUCT_LEVEL(Avx2, "x86-64-v3", 8, [[gnu::target("arch=x86-64-v3")]]);
ATTN_PRODUCT_LEVEL(Avx512, "x86-64-v4", 16, [[gnu::target("arch=x86-64-v4"), clang::min_vector_width(512)]]);
#endif

const ProductLevel& best_level() {
  static const ProductLevel best = product_levels().front();
  return best;
}

}  // namespace

std::vector<ProductLevel> product_levels() {
  std::vector<ProductLevel> levels;
#ifdef __x86_64__
  if (__builtin_cpu_supports("x86-64-v4")) levels.push_back(Avx512::kAll);
  if (__builtin_cpu_supports("x86-64-v3")) levels.push_back(Avx2::kAll);
#endif
  levels.push_back(Plain::kAll);
  return levels;
}

void score_products(const Operands& operands, std::span<const int64_t> panels, std::span<const QueryRow> rows) {
  best_level().scores(operands, panels, rows);
}

void weigh(Term term, const double* panel, std::span<const KeySpan> spans, std::span<const WeightedRow> rows) {
  best_level().weigh[static_cast<size_t>(term)](panel, spans, rows);
}

}  // namespace attnfuzz
