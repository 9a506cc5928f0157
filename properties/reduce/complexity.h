// The order in which the reducer likes cases.
//
// One list of numbers, most significant first: calls, batch, heads, lengths,
// dims, features, data, seeds. Everything a case holds is in it somewhere, so
// that two cases cost the same only if they are equal and the reducer, which
// only ever goes down, ends.
//
//   if (complexity(candidate) < complexity(best)) ...
#pragma once

#include <cstdint>
#include <vector>

#include "properties/case/case.h"

namespace attnfuzz {

// Smaller is simpler. Compared lexicographically.
std::vector<int64_t> complexity(const Case& c);

}  // namespace attnfuzz
