// Cases for holding two oracles together: problems and data as legal_cases.h has them, plans that
// declare anything at all, and inputs that a kernel may meet but a bound seldom does: NaN, infinities,
// subnormals and huge numbers, in what is seen and in what is hidden.
#pragma once

#include "reference/fast_oracle.h"
#include "tests/reference/cuda/tally.h"

namespace attnfuzz {

// Cases number first, first + 1, ...: the same on every machine. `to_first`: ends with the first that differs.
AgreementTally hold_on_declared(FastOracle& oracle, uint64_t first, int64_t count, bool to_first = false);

// The same of merges.
AgreementTally hold_on_merges(FastOracle& oracle, uint64_t first, int64_t count, bool to_first = false);

}  // namespace attnfuzz
