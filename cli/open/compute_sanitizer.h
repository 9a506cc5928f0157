// Lanes on a GPU: a case that is replayed under one of compute-sanitizer's
// tools, which says whether and what it sees. Some hundred times slower than a
// run, and so for single cases: it confirms and classifies what was found.
#pragma once

#include <string>
#include <vector>

#include "cli/options/command.h"

namespace attnfuzz {

// "memcheck", "racecheck", "initcheck" or "synccheck".
bool is_compute_sanitizer(const std::string& lane);

// Runs this program's `replay FILE --backend cuda` and further arguments under
// the tool, and prints its findings, each kind once. kFound if it has any,
// kHeld if none; throws UserError where compute-sanitizer cannot be run.
Exit replay_under(const std::string& tool, const std::string& file, const std::vector<std::string>& further);

}  // namespace attnfuzz
