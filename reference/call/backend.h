// The names of the contract's back ends.
#pragma once

#include <cstdint>

#include "kernels/attention.h"

namespace attnfuzz {

// Returns "cpu" or "cuda", as options, files and names of programs spell it.
inline const char* backend_name(int32_t backend) { return backend == ATTN_CUDA ? "cuda" : "cpu"; }

}  // namespace attnfuzz
