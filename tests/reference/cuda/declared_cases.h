// Cases for comparing two oracles: problems and data as in legal_cases.h, plans that declare anything, and
// rare inputs: NaN, infinities, subnormals and huge numbers, in visible and in hidden elements.
#pragma once

#include "reference/fast_oracle.h"
#include "tests/reference/cuda/tally.h"

namespace attnfuzz {

// Runs cases number first, first + 1, ..., which are the same on every machine. `to_first`: ends at the first
// difference.
AgreementTally hold_on_declared(FastOracle& oracle, uint64_t first, int64_t count, bool to_first = false);

// The same for merges, and for backward passes.
AgreementTally hold_on_merges(FastOracle& oracle, uint64_t first, int64_t count, bool to_first = false);
AgreementTally hold_on_gradients(FastOracle& oracle, uint64_t first, int64_t count, bool to_first = false);

}  // namespace attnfuzz
