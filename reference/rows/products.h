// The oracle's matrix products, Q K^T and P V in double, for several rows at once.
//
// They are nearly all of its work. A single row reads all of K and V for one multiplication each. Several
// rows read them once, and their sums stay in registers.
//
// Contract. Every result is one chain of fused multiply-adds, over t or over keys in the given order: one
// rounding a term, whatever the machine's vectors are. Results therefore have the same bits on every
// machine and in blocks of any height, and a weight of 0 (a hidden key) adds nothing. The functions are
// compiled for several levels of x86-64; the best one that the machine has is used (levels.h).
//
//   score_products(operands, panels, rows);           // rows[r].dot[p * kLanes + lane] = q.k
//   weigh(Term::kValue, values.panel(chunk), spans, weighted);  // weighted[r].sum[lane] += sum w v
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/rows/operands.h"

namespace attnfuzz {

inline constexpr int64_t kDotBlock = 16;  // columns of one mma

// One query and its products, at index panel position * kLanes + lane:
struct QueryRow {
  const double* q;       // dim_qk numbers
  const double* q_size;  // |q_t|
  double* dot;           // sum_t q_t k_t
  double* absolute;      // sum_t |q_t k_t|
  double* running;       // sum over blocks of kDotBlock columns of |sum of the blocks before|
};

// Products with all keys of the given panels. panels[p] lies at position p.
void score_products(const Operands& operands, std::span<const int64_t> panels, std::span<const QueryRow> rows);

// Consecutive keys, and where a row's weights for them begin.
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
  const double* mean;    // kLanes numbers, for kDistance only
};

// Adds sum_j weight_j term(v_j) over all spans, in order, to each row's sums. `panel`: kLanes columns of
// all values.
void weigh(Term term, const double* panel, std::span<const KeySpan> spans, std::span<const WeightedRow> rows);

// Sums in fp32 that serve as upper bounds. Non-zero weights are from 2^-96 to 2^60, sizes from 2^-30 to
// 2^30, so nothing is flushed or overflows.
struct SizedRow {
  const float* weight;  // by position
  double* sum;          // kLanes sums to add to
};
// Adds to each row's sums at least sum_j weight_j size_j, and at most kSizesApart of it more. `panel`:
// kLanes columns of all sizes.
void weigh_sizes(const float* panel, std::span<const KeySpan> spans, std::span<const SizedRow> rows);
// A chain of 32 additions in fp32 errs by at most 33 2^-24, so the sum is raised by 34 2^-24.
inline constexpr double kSizesRaised = 1 + 34 * 0x1p-24, kSizesApart = 68 * 0x1p-24;

// The sums of one panel of columns, for a row whose P is known (weighted_mean.h).
struct alignas(64) KnownSums {
  Lanes tile, prefix, mean, exact, charged, running;
};
// After a tile, G_c of each row grows by costs[row] of what the accumulator held before it. `last`: the
// split's last tile.
void end_tiles(std::span<KnownSums> sums, const double* costs, bool last);

// The functions of one level, for tests.
struct ProductLevel {
  const char* name;  // "x86-64-v4"
  void (*scores)(const Operands&, std::span<const int64_t>, std::span<const QueryRow>);
  void (*weigh[3])(const double*, std::span<const KeySpan>, std::span<const WeightedRow>);  // by Term
  void (*weigh_sizes)(const float*, std::span<const KeySpan>, std::span<const SizedRow>);
  void (*end_tiles)(std::span<KnownSums>, const double*, bool);
};
// The levels that this machine runs, the best first.
std::vector<ProductLevel> product_levels();

}  // namespace attnfuzz
