// The one look at a plan before anyone computes with it.
//
// A plan comes from plan(), in good faith or scribbled over. What it says must be
// possible at all: tiles that a case can be drawn for, enumerations that
// attention.h knows, a workspace that fits a slot of the arena and is aligned to at most
// kMaxWorkspaceAlign. Whether it is true is another matter; and that a workspace has more
// than kMaxCaseBytes is no mistake of the plan: Execution::no_room() turns the case down.
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
