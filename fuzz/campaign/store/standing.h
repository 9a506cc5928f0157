// How a campaign's folder stands, for `campaign`, `report`, `merge` and `status` alike:
// they end with the same status.
//
//   0 kHeld     nothing was found in what was judged so far. Whether a session lasted its
//               time is for Session::ended to say: one that still runs, was killed or was
//               interrupted is gone on with
//   1 kFound    a finding that nobody knew of, also one that failed once and in no later
//               run; a failure that waits to be reduced; or a planted bug that was not
//               found in a session that was not killed
//   2 kUnknown  a part of the folder is missing or cannot be read, or what was met could not be
//               kept; or nothing was found, and the last session ended for want of room on the disk, or
//               has lasted its time and of a target next to nothing was judged
//
// A `campaign` that a signal ended and that is kHeld ends as any command that is
// interrupted: with 128 and the signal's number.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fuzz/campaign/store/archive.h"

namespace attnfuzz {

enum class Standing { kHeld = 0, kFound = 1, kUnknown = 2 };

// `waiting`: waiting_failures(); `unjudged`: not_judged().
Standing standing(const FindingsFile& findings, size_t waiting, const std::vector<Canary>& canaries,
                  const CampaignHeader& header, const std::vector<std::string>& unjudged);

// Targets of which too little was judged (fuzz/check/enough.h), or nothing by a property that was named, and
// why, in words. Nothing while the last session runs, and of one that was broken off.
std::vector<std::string> not_judged(const CampaignHeader& header,
                                    const std::map<std::string, TargetStats>& stats);

// Reproducers that lie in the folders findings/ and never_again/ and that findings.json does not list, and what
// to do, in words. While failures wait to be reduced there may be some by rights: a finding's files are written
// first.
std::vector<std::string> unlisted_findings(const std::string& dir, const FindingsFile& findings);

// Of all shards. Throws std::runtime_error for what cannot be read.
std::map<std::string, TargetStats> stats_of(const std::string& dir);

// Crashes that are not yet reduced, those of planted bugs apart.
size_t waiting_failures(const std::string& dir);

}  // namespace attnfuzz
