// Checks the places that a kernel names for its partials, before anyone reads them.
//
// It comes from the kernel's process: wrong in good faith, or scribbled over. The
// first thing that cannot be true, in words ("partials.o does not lie in the planned
// workspace of ..."), or nothing. Of a plan see properties/judge/bad_plan.h.
#pragma once

#include <optional>
#include <string>

#include "kernels/attention.h"

namespace attnfuzz {

std::optional<std::string> nonsense(const attn_partials& partials, const attn_problem& problem,
                                    const attn_plan& plan);

}  // namespace attnfuzz
