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

}  // namespace attnfuzz
