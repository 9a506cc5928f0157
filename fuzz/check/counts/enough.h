// Decides if enough was judged, by one rule for a check, a campaign, its status, its report, a merge, and for
// sequences of calls.
//
// If a kernel refuses nearly everything, or its plan claims so little that any result passes, a
// check finds no failure. This must not count as a pass. The rule looks at refused cases, cases
// that were not judged and compared rows.
//
//   if (const std::string why = too_little_judged(stats, "fa1"); !why.empty()) not_green(why);
#pragma once

#include <string>

#include "fuzz/check/counts/statistics.h"

namespace attnfuzz {

// A sentence that says why too little was judged; empty if enough was. At least one row must have
// been compared with the reference. From 20 cases on, at least half must also have been judged.
std::string too_little_judged(const Statistics& stats, const std::string& name);

// The same rule for the calls of sequences: "nothing was judged of NAME", or "most calls of NAME were not
// judged: 3 of 200 were". An empty `name` leaves out "of NAME". `asked`: calls that the kernel was asked to make.
std::string too_few_calls_judged(uint64_t asked, uint64_t judged, const std::string& name);

}  // namespace attnfuzz
