// O and its bound, column by column, for the rows of a block: the sums over v_jc in the formulas of
// weighted_mean.h.
//
//   known_columns(block, values, rows);  // rows whose P is known
//   plain_columns(block, values, rows);  // the others
//
// If a row's bound is not finite, known_columns() clears `known`, and plain_columns() `result.informative`.
#pragma once

#include "reference/rows/weighted_mean.h"

namespace attnfuzz {

// Stores the charge of each |v_j| in row->charge_sized, as floats, if the range `least`..`most` of the charges
// suits fp32, and else in row->charge. No charge is negative.
void put_charges(const KeyBlock& block, const Values& values, const double* charge, double least, double most,
                 MeanRow* row);
// Sets row->result.lse_scatter and o_scatter: sqrt(sum c^2) / sum c of the keys' charges c
// (Reference::o_scatter).
void scatter_errors(const double* weight, const double* error, const double* charge, MeanRow* row);

void known_columns(const KeyBlock& block, const Values& values, std::span<MeanRow* const> rows);
void plain_columns(const KeyBlock& block, const Values& values, std::span<MeanRow* const> rows);

}  // namespace attnfuzz
