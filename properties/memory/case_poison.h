// The poison of outputs and workspace before a call. Both layouts use it: on a host (layout.h) and on a
// device (fuzz/batch).
#pragma once

#include "properties/case/case.h"
#include "properties/memory/poison.h"

namespace attnfuzz {

// The 32-bit pattern of an output with its redzones and gaps, and of the inside of a workspace. It repeats
// by address.
uint32_t output_pattern(const Case& c, TensorId t, const PoisonPatterns& poison = {});
uint32_t workspace_pattern(const Case& c, const PoisonPatterns& poison = {});

}  // namespace attnfuzz
