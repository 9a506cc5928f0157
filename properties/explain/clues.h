// Learns more about a fault from a few more runs of the failing case.
//
// A reduced case is so small that faults of many classes end in the same case: one query, one key, zeros.
// Three questions separate them. Which of the kernel's intermediates goes wrong first (probe_check.h)?
// Which other reading of the problem gives the wrong values (trace.h)? Does the failure go away if the
// sizes fill whole tiles or whole vectors?
//
//   const Clues clues = gather_clues(minimal, verdict, target, calibration);
//   puts(guess_fault({minimal, verdict, needs, build_kind, clues}).line().c_str());
#pragma once

#include "properties/explain/fault_class.h"
#include "properties/explain/trace.h"

namespace attnfuzz {

// Examines `c`, which failed as `verdict` says. A case that hangs is not run. The questions
// take about twenty runs at most, besides those that search for the block to probe.
Clues gather_clues(const Case& c, const Verdict& verdict, Target& target, const Calibration& calibration);

// Returns lines for people ("with lengths of whole tiles it passes"). Questions that were not asked give no line.
std::vector<std::string> lines_of(const Clues& clues);

}  // namespace attnfuzz
