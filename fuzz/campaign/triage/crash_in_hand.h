// The crash that the triage examines: the mark in its folder, and what is known of it without running it.
#pragma once

#include <string>

#include "fuzz/campaign/store/archive.h"

namespace attnfuzz {

// The number of times that the process that examined this crash died while the supervisor lived.
int exits_of_triage(const std::string& crash_folder);
// True if the triage process died so often on this crash that it must not run again.
bool ends_triage(const std::string& crash_folder);

// Marks the crash as the one in hand. Throws std::system_error if that cannot be written.
void take_in_hand(const std::string& crash_folder);
// Removes all marks. `counts`: each is one more exit.
void release_crashes(const std::string& dir, bool counts);

// True if findings.json has this crash already.
bool is_counted(const std::string& dir, const Crash& crash);

// Counts a crash that died or is stuck at the place of a finding there. Without this, a kernel that fails at
// one place would be reduced for each crash. Returns false if there is no such finding.
bool count_at_known_site(FindingsFile& all, const Crash& crash, const Finding& finding);

// A finding with what the crash says.
Finding finding_of(const Crash& crash);

}  // namespace attnfuzz
