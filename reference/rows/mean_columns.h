// O and its bound, column by column, for the rows of a block: the sums over values of weighted_mean.h.
//
//   known_columns(block, values, rows);  // rows whose P is known
//   plain_columns(block, values, rows);  // the others
//
// If a row's bound is not finite, known_columns() clears `known`, and plain_columns() `result.informative`.
#pragma once

#include "reference/rows/weighted_mean.h"

namespace attnfuzz {

// Stores the charge of each |v_j| in row->charge, or as floats in row->charge_sized. `least` and `most`:
// the range of the charges, none negative.
void put_charges(const KeyBlock& block, const Values& values, const double* charge, double least, double most,
                 MeanRow* row);
// Sets row->result.lse_scatter and o_scatter, from the charges of the keys' weights and values.
void scatter_errors(const double* weight, const double* error, const double* charge, MeanRow* row);

void known_columns(const KeyBlock& block, const Values& values, std::span<MeanRow* const> rows);
void plain_columns(const KeyBlock& block, const Values& values, std::span<MeanRow* const> rows);

}  // namespace attnfuzz
