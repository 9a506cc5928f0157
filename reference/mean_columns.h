// O and its bound, column by column, for the rows of a block: what weighted_mean.h
// spells out, as sums over the values.
//
//   known_columns(block, values, rows);  // rows whose P is known
//   plain_columns(block, values, rows);  // the others
//
// A row with a bound that is not finite loses its flag: `known`, then `result.informative`.
#pragma once

#include "reference/weighted_mean.h"

namespace attnfuzz {

void known_columns(const KeyBlock& block, const Values& values, std::span<MeanRow* const> rows);
void plain_columns(const KeyBlock& block, const Values& values, std::span<MeanRow* const> rows);

// What V's subnormals may be misaligned by, and those of V that meet those of P.
double aligned_values(const MeanTerms& terms, double count, double l);

// `lost` of a row whose P is known.
double lost_of_known(const MeanRow& row);

}  // namespace attnfuzz
