// Checks the offsets and strides that a kernel names for its partials, before anyone reads there.
//
// The answer comes from the kernel's process, so it may be a mistake or overwritten memory. Returns
// the first contradiction in words ("partials.o does not lie in the planned workspace of ..."), or
// nothing. properties/judge/bad_plan.h checks plans.
#pragma once

#include <optional>
#include <string>

#include "kernels/attention.h"

namespace attnfuzz {

std::optional<std::string> nonsense(const attn_partials& partials, const attn_problem& problem,
                                    const attn_plan& plan);

}  // namespace attnfuzz
