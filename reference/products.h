// The oracle's matrix products, Q K^T and P V in double, for several rows at once.
//
// They are nearly all of its work. A row by itself reads all of K and V for one
// multiplication a number; several rows together read them once, and what they
// add up stays in registers.
//
// Contract. Every number is one chain of fused multiply-adds, over t or over keys in
// the order given: one rounding a term, whatever the machine's vectors are. So results
// have the same bits on every machine and in blocks of any height, and a weight of
// 0 (a key that a row does not see) adds nothing. Compiled for several levels of
// x86-64; the best that the machine has is used.
//
//   score_products(operands, panels, rows);           // rows[r].dot[p * kLanes + lane] = q.k
//   weigh(Term::kValue, values.panel(chunk), spans, weighted);  // weighted[r].sum[lane] += sum w v
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/operands.h"

namespace attnfuzz {

inline constexpr int64_t kDotBlock = 16;  // columns of one mma

// One query and what becomes of it, at panel position * kLanes + lane:
struct QueryRow {
  const double* q;       // dim_qk numbers
  const double* q_size;  // and their |q_t|
  double* dot;           // sum_t q_t k_t
  double* absolute;      // sum_t |q_t k_t|
  double* running;       // sum over blocks of kDotBlock columns of |sum of the blocks before it|
};

// Of all keys of the given panels; panels[p] lies at position p.
void score_products(const Operands& operands, std::span<const int64_t> panels, std::span<const QueryRow> rows);

// Consecutive keys, and where a row's weights of them begin.
struct KeySpan {
  int64_t key;
  int64_t position;
  int64_t count;
};

enum class Term {
  kValue,    // v
  kSize,     // |v|
  kDistance  // |v - mean|
};

struct WeightedRow {
  const double* weight;  // by position
  double* sum;           // kLanes sums to add to
  const double* mean;    // kLanes numbers; only for kDistance
};

// Adds sum_j weight_j term(v_j) over all spans, in their order, to each row's sums. `panel`: kLanes
// columns of all values.
void weigh(Term term, const double* panel, std::span<const KeySpan> spans, std::span<const WeightedRow> rows);

// The same of one level, for tests.
struct ProductLevel {
  const char* name;  // "x86-64-v4"
  void (*scores)(const Operands&, std::span<const int64_t>, std::span<const QueryRow>);
  void (*weigh[3])(const double*, std::span<const KeySpan>, std::span<const WeightedRow>);  // by Term
};
// Those that this machine runs, the best first.
std::vector<ProductLevel> product_levels();

}  // namespace attnfuzz
