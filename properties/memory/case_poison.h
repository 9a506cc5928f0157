// What outputs and a workspace hold before a call: for whoever lays a case out, on a host (layout.h) or on a
// device (fuzz/batch).
#pragma once

#include "properties/case/case.h"
#include "properties/memory/poison.h"

namespace attnfuzz {

// Of an output, with its guards and gaps, and of the inside of a workspace: 32 bits, repeated by address.
uint32_t output_pattern(const Case& c, TensorId t, const PoisonPatterns& poison = {});
uint32_t workspace_pattern(const Case& c, const PoisonPatterns& poison = {});

}  // namespace attnfuzz
