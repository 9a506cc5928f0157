// A case's problem and environment as the contract has them: what a new field of either passes through on its
// way to a kernel. Its tensors are laid out (layout.h).
#pragma once

#include "properties/case/case.h"

namespace attnfuzz {

attn_problem problem_of(const Problem& problem);
attn_env env_of(const Environment& from);  // back end 0, callbacks, stream and probe empty

}  // namespace attnfuzz
