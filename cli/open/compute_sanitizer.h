// Replays a case on a GPU under a tool of compute-sanitizer. `--build memcheck` chooses a tool as if it were a
// build. A replay is some hundred times slower than a normal run, so it is meant to confirm and classify single
// findings.
#pragma once

#include <string>
#include <vector>

#include "cli/options/command.h"

namespace attnfuzz {

// "memcheck", "racecheck", "initcheck" or "synccheck".
bool is_compute_sanitizer(const std::string& build_kind);

// Runs this program's `replay FILE --backend cuda --build plain` and further arguments under the tool, and
// prints the tool's findings, each kind once. Returns kFound if there are any. Otherwise the replay's own
// status counts: kFound, kPassed, or kBadUse for any other. Throws UserError if compute-sanitizer cannot be
// run.
Exit replay_under(const std::string& tool, const std::string& file, const std::vector<std::string>& further);

}  // namespace attnfuzz
