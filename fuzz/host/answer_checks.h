// What a kernel says of itself, looked at before anyone computes with it.
//
// A plan and the place of partials come from the kernel's process: wrong in
// good faith, or scribbled over. Each function gives the first thing that
// cannot be true, in words ("tile_q is 0, must be 1..."), or nothing.
#pragma once

#include <optional>
#include <string>

#include "kernels/attention.h"

namespace attnfuzz {

std::optional<std::string> nonsense(const attn_plan& plan);
std::optional<std::string> nonsense(const attn_partials& partials, const attn_problem& problem,
                                    const attn_plan& plan);

}  // namespace attnfuzz
