// Decides if enough was judged, by one rule for a check, a campaign, its status, its report and a merge.
//
// A kernel that refuses nearly everything, or a plan that claims so little that any result passes, finds no
// failure. That is no pass. Refused cases, cases that were not judged and compared rows all count.
//
//   if (const std::string why = too_little_judged(stats, "fa1"); !why.empty()) not_green(why);
#pragma once

#include <string>

#include "fuzz/check/statistics.h"

namespace attnfuzz {

// Why what was judged says too little, in a sentence; empty: it says enough. From 20 cases on at least half
// must have been judged; of fewer, and always, some row must have been compared with the reference.
std::string too_little_judged(const Statistics& stats, const std::string& name);

}  // namespace attnfuzz
