// The back ends of the contract in words.
#pragma once

#include <cstdint>

#include "kernels/attention.h"

namespace attnfuzz {

// "cpu" or "cuda": of options, of files and in the names of programs.
inline const char* backend_name(int32_t backend) { return backend == ATTN_CUDA ? "cuda" : "cpu"; }

}  // namespace attnfuzz
