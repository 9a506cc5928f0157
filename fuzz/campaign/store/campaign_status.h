// The status of a campaign's folder. `campaign`, `report`, `merge` and `status` all exit with it.
//
//   0 kPassed   nothing was found so far. Session::ended says how the last session ended. A
//               killed or interrupted session can be continued
//   1 kFound    a finding that the ledger does not know, even if it failed only once; a failure that waits to be
//               reduced; or a seeded bug that was missed (is_missed())
//   2 kUnknown  a part of the folder is missing, cannot be read or could not be written; or nothing was found, and
//               the last session ended because the disk was full, or it lasted its time and judged next to nothing
//               on some target; or failures were counted that nobody has looked at, because many of their kind
//               waited
//
// In a merged folder the last session of each campaign decides, and the worst one wins. None of them goes on,
// so one that was broken off must have judged enough as well, and one that was killed is no pass.
//
// If a signal ended a `campaign` that is kPassed, it exits like any interrupted command: with 128 plus the
// signal's number.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/campaign/store/archive.h"

namespace attnfuzz {

enum class CampaignStatus { kPassed = 0, kFound = 1, kUnknown = 2 };

// True if the seeded bug was looked for to the end and not found: the harness is broken. A session that still
// runs or was killed says nothing, and neither does one that a signal ended too early.
bool is_missed(const SeededBugResult& seeded_bug, const CampaignHeader& header);

// `waiting`: waiting_failures(); `unjudged`: not_judged().
CampaignStatus campaign_status(const FindingsFile& findings, size_t waiting,
                               const std::vector<SeededBugResult>& seeded_bugs, const CampaignHeader& header,
                               const std::vector<std::string>& unjudged);

// A campaign whose last session says how it stands: the folder's own, or each of those that a merge took over.
struct CampaignPart {
  std::string dir;  // of a merged campaign; else empty
  Session last;
  std::vector<TargetRecord> targets;
  std::optional<std::vector<int>> shards;  // of a merged campaign; else all
};
// Empty if no session has begun. A session that went on from a merged folder is of the whole folder.
std::vector<CampaignPart> parts_of(const CampaignHeader& header);

using StatsOfShards = std::map<int, std::map<std::string, TargetStats>>;
// Throws std::runtime_error for a file that cannot be read.
StatsOfShards stats_of_shards(const std::string& dir);

// The targets for which too little was judged (fuzz/check/counts/enough.h), or for which a named property
// judged nothing, with the reason: none while the last session runs, and if it was broken off. Also the targets
// of which failures were never looked at, and merged campaigns that did not end.
std::vector<std::string> not_judged(const CampaignHeader& header, const StatsOfShards& shards);

// Reproducers in findings/ and never_again/ that findings.json does not list, and what to do. While
// failures wait to be reduced there may be some, because a finding's files are written first.
std::vector<std::string> unlisted_findings(const std::string& dir, const FindingsFile& findings);

// True if the folder is the result of a merge.
bool is_merged(const CampaignHeader& header);

// The shard of each job on the CPU that a session of `header` had. Empty as well if an older version has merged
// the folder: it did not keep these numbers.
std::vector<int> shards_of_jobs(const CampaignHeader& header, const Session& session);

// Names the files that the folder has lost, and says what each loss means: the statistics of a shard that had
// some when a session ended, the folder of a job of a session that ended, and the result of a seeded bug of
// such a session. A session that was killed or still runs is not looked at.
std::vector<std::string> lost_parts(const std::string& dir, const CampaignHeader& header,
                                    const std::vector<SeededBugResult>& seeded_bugs);

// The jobs of the last session that began no case, in words, of each merged campaign; empty if there is none,
// or if it has not ended.
std::string idle_jobs(const CampaignHeader& header);

// Over all shards. Throws std::runtime_error for a file that cannot be read.
std::map<std::string, TargetStats> stats_of(const std::string& dir);

// The number of crashes that are not yet reduced. Crashes of seeded bugs do not count.
size_t waiting_failures(const std::string& dir);

}  // namespace attnfuzz
