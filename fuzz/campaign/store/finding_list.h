// The list of what a campaign has found: each bug once, however often it was met.
//
//   Finding* known = found_at(list, crash);        // by where it died or is stuck: nothing is run
//   if (known) count_together(*known, finding);
//   else if (enter(list, finding)) write_files();  // the first of its key, or the first that is fully reduced
#pragma once

#include <string>
#include <vector>

#include "fuzz/campaign/store/archive.h"

namespace attnfuzz {

// Adds to a finding what another one that shows the same has counted.
void count_together(Finding& known, const Finding& other);

// The finding of the crash's kernel and kind that has its site: the same signal at the
// same instruction, or stuck in the same function. Null if there is none, or the
// crash has no site.
Finding* found_at(std::vector<Finding>& list, const Crash& crash);

// Counts it under its key; whether it is the one that stands there now. `finding` then
// has counted what was there before it.
bool enter(std::vector<Finding>& list, Finding& finding);

// The finding of this key counts what those of these names had counted, and takes their place.
void absorb(std::vector<Finding>& list, const std::string& key, const std::vector<std::string>& names);

}  // namespace attnfuzz
