// Checks a plan before anyone computes with it.
//
// A plan comes from plan(), in good faith or overwritten by mistake. It must at least be possible: tiles
// for which cases can be drawn, enumerators of attention.h, a workspace that fits a slot of the arena and
// an alignment of at most kMaxWorkspaceAlign. Whether the plan is true is another question. A workspace
// above kMaxCaseBytes, but within a slot, is possible; Execution::no_room() refuses that case.
//
//   bad_plan(plan)  "tile_q is 0, must be 1..1048576 (1 will do for a kernel without tiles)"
//
// The first impossible field, and what would be valid; nothing if the plan is possible.
#pragma once

#include <optional>
#include <string>

#include "kernels/attention.h"

namespace attnfuzz {

std::optional<std::string> bad_plan(const attn_plan& plan);

}  // namespace attnfuzz
