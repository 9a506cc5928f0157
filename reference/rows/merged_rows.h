// Bounds rows that are merged from the results of several sides: the splits of Split-K, or two calls.
//
// From the exact O_s and LSE_s of S sides, O = sum_s e^(LSE_s - LSE) O_s and LSE = ln sum_s e^(LSE_s). This is
// a weighted mean (weighted_mean.h), with scores x_s = LSE_s, values O_s, and only the merge's own rounding:
//
//   R_s = M - x_s                            how far below the largest LSE, M
//   e_s = 5u R_s + S(eps_e + 2u)             product by log2 e, subtraction; S factors if merged one by one
//       + 2u(|x_s| + |M|)                    if each LSE is rounded when multiplied, before M is subtracted;
//                                            S times if merged one by one
//       + 2 eps_e                            the largest LSE's own weight
//   g_l = g_v = gamma(S+3, u), u_P = 0, eta_P = 2^-125 (a weight and a product may flush; S times that where
//   weights are relative to the final LSE)
//
// If a merge weighs by the rounded final LSE, the factor e^C of weighted_mean.h applies, too.
//
//   MergedRows merged(model, &reference);
//   merged.begin(row);
//   decode_row(o, merged.add_side(lse));   // for each side that saw a key
//   merged.end();
#pragma once

#include <cstdint>
#include <vector>

#include "reference/call/reference.h"
#include "reference/model/error_model.h"
#include "reference/rows/weighted_mean.h"

namespace attnfuzz {

// Buffers are kept from row to row. The model and the reference must outlive it; the reference has O and LSE.
class MergedRows {
 public:
  MergedRows(const ErrorModel& model, Reference* out);

  void begin(int64_t row);
  // Adds a side with this LSE (natural). Returns room for the columns of its O, valid until the next side.
  double* add_side(double lse);
  // Writes the row. A row without a side is dead. A NaN LSE makes the row NaN, an infinite one leaves it
  // unconstrained; a NaN in O makes its column NaN.
  void end();

 private:
  void bound_numbers();

  const ErrorModel& model_;
  Reference& out_;
  int64_t row_ = 0;
  std::vector<double> x_, values_;  // LSE and O of the row's sides
  std::vector<double> e_, weight_;
  std::vector<int64_t> index_;
  MeanWork work_;
  MeanRow mean_;
  KeyBlock block_;
};

}  // namespace attnfuzz
