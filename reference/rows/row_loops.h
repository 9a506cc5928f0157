// The loops over a row's keys that take longest after the matrix products (products.h).
//
// The formulas are derived in scores.h, tile_walk.h, rounded_p.h and weighted_mean.h, and have the symbols from
// there. Factors stand side by side, as in `dot scale`. Contract: an array that is written must not be one that
// is read. The bits are the same at every level of x86-64: multiply-adds are explicit, and a sum always has
// sixteen parts.
//
//   const RowLoops& loops = row_loops();
//   const double l = loops.exponentials(x, n, m, weight);   // weight[k] = e^(x[k] - m), and their sum
#pragma once

#include <cstdint>
#include <vector>

#include "reference/rows/row_terms.h"

namespace attnfuzz {

struct ScoreExtent {
  double largest_x, least_x, largest_delta, largest_size;
};
// The factors of a row's scores.
struct ScoreFactors {
  double scale, factor, least, unit;
};

struct RowLoops {
  const char* name;  // "x86-64-v4"

  // e^(x - subtracted). For arguments from -708 to 709 within 1.5 units of the last place (2^-51.4 relative); 0
  // below, infinite above, NaN for NaN; e^0 is 1. Returns sum() of the results.
  double (*exponentials)(const double* x, int64_t n, double subtracted, double* out);
  double (*sum)(const double* x, int64_t n);

  // x_j = dot scale; delta_j = |scale| ((size + running) factor + least); err_j = delta + unit |x|. `running`
  // may be null.
  ScoreExtent (*scores)(const double* dot, const double* size, const double* running, int64_t n,
                        const ScoreFactors& of, double* x, double* delta, double* error);
  // The extent of scores that were changed after scores() returned it, for instance by a bias.
  ScoreExtent (*extent)(const double* x, const double* delta, const double* size, int64_t n);
  // delta + unit |x|.
  void (*errors)(const double* x, const double* delta, int64_t n, double unit, double* error);
  // The maximum over the keys of one tile; and the largest error.
  Maximum (*reach)(const double* x, const double* error, int64_t n, double* largest_error);
  // e_j = err_j + per_range (m - x_j + delta_j + largest_delta) + constant; returns the largest.
  double (*allowances)(const double* x, const double* delta, const double* error, int64_t n, double m,
                       double largest_delta, double per_range, double constant, double* e);

  // Calls round_key() for each key, with p = weight * grown * tile.scale. False if one is too uncertain.
  bool (*round_tile)(const KeyRounding& tile, const double* weight, double grown, const double* x,
                     const double* error, const double* absolute, int64_t n, double* centre, double* charge);
  // w_j = weight / l and w_j rho_j, for allowances of at most 1/8. Returns the sum of w_j rho_j.
  double (*weigh)(const double* weight, const double* allowance, int64_t n, double l, double eps_weight,
                  double* w, double* error);
  // charge_j + relative (centre_j + charge_j) + tiny + cost centre_j. Updates *least and *most.
  void (*charges)(const double* centre, const double* charge, int64_t n, double relative, double tiny,
                  double cost, double* all, double* least, double* most);
  // x scale, rounded to fp32.
  void (*floats)(const double* x, int64_t n, double scale, float* out);
  // |x| scale in fp32. Returns the least that is not 0, or infinity.
  double (*sizes)(const double* x, int64_t n, double scale, float* out);
};

// The best that this machine runs.
const RowLoops& row_loops();
// All levels that it runs, the best first, for tests.
std::vector<RowLoops> row_loop_levels();

}  // namespace attnfuzz
