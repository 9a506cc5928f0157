// What a few more runs of a failing case tell of its fault.
//
// A reduced case is so small that faults of many classes leave the same one
// behind: one query, one key, zeros. What sets them apart is where the kernel's
// own intermediates first go wrong (probe_check.h), which other reading of the
// problem gives the wrong values (trace.h), and whether the failure goes away
// where the sizes fill whole tiles or whole vectors.
//
//   const Clues clues = gather_clues(minimal, verdict, target, calibration);
//   puts(guess_fault({minimal, verdict, needs, lane, clues}).line().c_str());
#pragma once

#include "properties/explain/fault_class.h"
#include "properties/explain/trace.h"

namespace attnfuzz {

// Of `c`, which failed as `verdict` says. Nothing is run of a case that hangs. At most
// some twenty runs, and those that look for the block to probe.
Clues gather_clues(const Case& c, const Verdict& verdict, Target& target, const Calibration& calibration);

// For a person: "with lengths of whole tiles it passes". Nothing of what was not asked.
std::vector<std::string> lines_of(const Clues& clues);

}  // namespace attnfuzz
