// Converts a case's problem and environment to the contract's structures. Every field of either passes
// through here on its way to a kernel. layout.h lays out the tensors.
#pragma once

#include "properties/case/case.h"

namespace attnfuzz {

attn_problem problem_of(const Problem& problem);
attn_env env_of(const Environment& from);  // back end 0; no callbacks, stream or probe

}  // namespace attnfuzz
