// Cases for the tests of batches.
#pragma once

#include <cstdint>
#include <vector>

#include "properties/case/problem.h"

namespace attnfuzz {

// Drawn cases that a batch takes, with few rows, because a row takes the executor some milliseconds.
std::vector<Case> cases_for_it(size_t count, int64_t most_rows);
std::vector<Case> laid_oddly(const std::vector<Case>& cases, size_t count);
// Returns attn_problem.features: what a case has beyond a dense 16-bit call with heads of up to 256 columns.
uint64_t features_of(const Case& c);
// Drawn cases with each of these features, alone and together, `each` times or more.
std::vector<Case> cases_with(uint64_t features, int each, int64_t most_rows);
// Drawn merges that a batch takes.
std::vector<Case> merges(size_t count, int64_t most_rows);

}  // namespace attnfuzz
