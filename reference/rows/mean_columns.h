// O and its bound, column by column, for the rows of a block: what weighted_mean.h
// spells out, as sums over the values.
//
//   known_columns(block, values, rows);  // rows whose P is known
//   plain_columns(block, values, rows);  // the others
//
// A row with a bound that is not finite loses its flag: `known`, then `result.informative`.
#pragma once

#include "reference/rows/weighted_mean.h"

namespace attnfuzz {

// Puts what is charged of each |v_j| in row->charge, or as floats in row->charge_sized. `least` and `most`: of
// its numbers, none negative.
void put_charges(const KeyBlock& block, const Values& values, const double* charge, double least, double most,
                 MeanRow* row);
// row->result.lse_scatter and o_scatter, of what is charged of the keys' weights and of their values.
void scatter_errors(const double* weight, const double* error, const double* charge, MeanRow* row);

void known_columns(const KeyBlock& block, const Values& values, std::span<MeanRow* const> rows);
void plain_columns(const KeyBlock& block, const Values& values, std::span<MeanRow* const> rows);

}  // namespace attnfuzz
