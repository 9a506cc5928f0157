// The one look at a plan before anyone computes with it.
//
// A plan comes from plan(), in good faith or scribbled over. What it says must be
// possible at all: tiles that a case can be drawn for, enumerations that
// attention.h knows, a workspace that there is room for. Whether it is true is
// another matter.
//
//   bad_plan(plan)  "tile_q is 0, must be 1..1048576 (1 will do for a kernel without tiles)"
//
// The first thing that cannot be, and what will do; nothing if it makes sense.
#pragma once

#include <optional>
#include <string>

#include "kernels/attention.h"

namespace attnfuzz {

std::optional<std::string> bad_plan(const attn_plan& plan);

}  // namespace attnfuzz
