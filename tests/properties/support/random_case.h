// Random legal cases with many features at once. In tests, reductions begin with them.
#pragma once

#include <cstdint>

#include "properties/case/case.h"

namespace attnfuzz {

// Equal seeds give equal cases.
Case random_case(uint64_t seed);

}  // namespace attnfuzz
