// What a case gives a kernel besides the values of its inputs: for whoever lays it out, on a host (layout.h)
// or on a device (fuzz/screen).
#pragma once

#include "properties/case/case.h"
#include "properties/memory/poison.h"

namespace attnfuzz {

attn_problem problem_of(const Problem& problem);
attn_env env_of(const Environment& from);  // back end 0, callbacks, stream and probe empty
// What an output, with its guards and gaps, and the inside of a workspace hold before a call: 32 bits,
// repeated by address.
uint32_t output_pattern(const Case& c, TensorId t, const Poison& poison = {});
uint32_t workspace_pattern(const Case& c, const Poison& poison = {});

}  // namespace attnfuzz
