// A campaign's findings: each bug once, however often it was met.
//
//   Finding* known = found_at(list, crash);        // compares where it died or is stuck; runs nothing
//   if (known) count_together(*known, finding);
//   else if (enter(list, finding)) write_files();  // the first of its key, or the first that is fully reduced
#pragma once

#include <string>
#include <vector>

#include "fuzz/campaign/store/archive.h"

namespace attnfuzz {

// Adds the counts of another finding that shows the same bug.
void count_together(Finding& known, const Finding& other);

// The finding of the crash's kernel and kind with the same site: the same signal at the same instruction,
// or stuck in the same function. Null if there is none, or if the crash has no site.
Finding* found_at(std::vector<Finding>& list, const Crash& crash);

// Counts `finding` under its key. True if the list now has `finding` for this key; it then includes earlier
// counts.
bool enter(std::vector<Finding>& list, Finding& finding);

// The finding of this key takes over the counts and the place of the findings with these names.
void absorb(std::vector<Finding>& list, const std::string& key, const std::vector<std::string>& names);

}  // namespace attnfuzz
