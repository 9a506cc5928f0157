// The crash that the triage examines: the mark in its folder, and what is known of it without running it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fuzz/campaign/triage/triage.h"

namespace attnfuzz {

// Writes to the campaign's folder. It waits while the disk is full (store/jobs/shared_state.h).
void save(const Triage& t, const std::function<void()>& write);

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

// Counts a crash that died or is stuck at the place of a finding there, in findings.json. Without this, a kernel
// that fails at one place would be reduced for each crash. Returns false if there is no such finding.
bool count_at_known_site(const Triage& t, const Crash& crash, const Finding& finding);

// A finding with what the crash says.
Finding finding_of(const Crash& crash);

// Enters the finding into findings.json: a failure that never came again apart from the others. It takes the place
// of the findings named by `replaced`, whose files are removed. `write_files` writes the finding's own files to a
// folder, before the list names them; it is not called if the list has a finding of this key already.
void enter_finding(const Triage& t, Finding& finding, const std::vector<std::string>& replaced,
                   const std::function<void(const std::string& folder)>& write_files);

}  // namespace attnfuzz
