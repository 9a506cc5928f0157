// One pair of a query and a key in a backward pass, and one element of a gradient at the end: the formulas of
// gradients.h. gradients.cc adds up their results.
//
//   const Terms terms = make_terms(problem, plan, model);
//   const Factor f = pair(terms, model, inputs);         // dA and P with their errors
//   const Result dq = finish(terms, model, sum, ...);
#pragma once

#include <Eigen/Core>
#include <cmath>
#include <cstdint>

#include "reference/model/error_model.h"

namespace attnfuzz::gradients {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// A rule for an element that its number does not express. If two rules meet in a sum, the larger
// one wins.
enum Taint : uint8_t { kPure = 0, kFree = 1, kNaNDue = 2 };

inline Taint taint_of(double x) { return std::isnan(x) ? kNaNDue : std::isinf(x) ? kFree : kPure; }

// Numbers that are the same for all pairs.
struct Terms {
  double score_error = 0, grad_error = 0;  // g of q.k and of dO.v
  double converted = 0;                    // (1 + u_T)^2 - 1
  double flushed = 0;                      // a factor of a product may lose this
  double dim_qk = 0, dim_v = 0;
  double s_unit = 0, s_tiny = 0, s_overflow = kOverflow;  // of the format of dA as a factor
  double least = 0;  // a non-zero 16-bit factor below this is aligned as if it had this size
  bool rounds_heads = false;
  bool rounds_pairs = false;  // dS of a pair is rounded to the input's format before it goes to dbias
  int64_t dq_adds = 0, dkv_adds = 0;  // 0: as many as pairs
  double product_unit = 0, sum_unit = 0;

  // The relative error of a sum over pairs that see each other.
  double sum_error(int64_t pairs, int64_t blocks, int64_t adds) const;
  double raised(double size) const { return size > 0 && size < least ? least : size; }
};

Terms make_terms(const attn_problem& problem, const attn_plan& plan, const ErrorModel& model);

// The block of the mma that a key or a query is in. Blocks are counted from the first key of a tile.
inline int64_t block_of(int64_t index, int64_t tile, int64_t mma_block) {
  const int64_t blocks = (tile + mma_block - 1) / mma_block;
  return index / tile * blocks + index % tile / mma_block;
}

struct Pair {
  double dot, dot_size;      // q.k and sum|q k|
  double factors;            // sum|q| + sum|k|
  double bias, lse;          // natural
  double grad, grad_size;    // dO.v and sum|dO v|
  double grad_factors;       // sum|dO| + sum|v|
  double delta, delta_size;  // D and sum|dO o|
  double lse_error = 0, delta_error = 0;  // of a kernel that computes O and LSE by itself
  // If the stored LSE leaves the sink out: dLSE, that LSE and its error. Otherwise dLSE is a part of `delta`.
  double dlse_apart = 0, lse_apart = 0, lse_apart_error = 0;
};

struct Factor {
  double s = 0, s_error = 0;                // dS and E^S
  double a = 0, a_error = 0;                // dA and E^A
  double p = 0, p_error = 0;                // P and E^P
  double grad_error = 0;                    // G
  bool a_bounded = true, p_bounded = true;  // false: an intermediate may overflow
};

Factor pair(const Terms& terms, const ErrorModel& model, const Pair& in);

// A query's term of dsink, -e^(sink - lam) D, with its error.
struct SinkTerm {
  double value = 0, error = 0;
  bool bounded = true;
};
struct SinkRow {
  double sink, lse, lse_error;               // natural; a sink of -infinity is none
  double delta, delta_size, delta_error;     // D, sum|dO o| + |dLSE|, and the further error of D
};
SinkTerm sink_term(const Terms& terms, const ErrorModel& model, const SinkRow& in);

// The natural LSE with the sink, computed from one without it, and its error.
struct WithSink {
  double lse, error;
};
WithSink with_sink(double lse_apart, double sink);

struct Result {
  double value = 0, bound = 0;
  bool bounded = true;  // false: an intermediate may overflow
};

// `sum` and `error`: without the scale; `relative`: the part of `error` for each unit of the moduli' sum.
// `factors`: the sum of |dA| or P, which counts if numbers are flushed.
struct Sum {
  double sum, error, relative, factors;
  int64_t pairs, adds;
  bool scaled;
};
Result finish(const Terms& terms, const ErrorModel& model, const Sum& in);

}  // namespace attnfuzz::gradients
