// Random legal cases with many features at once: where reductions begin in tests.
#pragma once

#include <cstdint>

#include "properties/case/case.h"

namespace attnfuzz {

// Every draw is its own; equal seeds give equal cases.
Case random_case(uint64_t seed);

}  // namespace attnfuzz
