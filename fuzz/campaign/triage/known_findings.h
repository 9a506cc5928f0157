// The findings of a campaign that a new failure may be but more of.
//
//   for (const KnownFinding& known : recall(dir, targets, target, worker))
//     if (explains(known.need, c, verdict, judge_it).answer == Explains::kYes) ...
//
// Those that fail each time, by themselves (property `reference`), and were reduced
// to the end; on any back end and in any lane of one kernel. Each is judged once
// more, on the target at hand: its tiles are what lengths mean there.
#pragma once

#include <string>
#include <vector>

#include "fuzz/campaign/store/campaign_options.h"
#include "fuzz/campaign/triage/explained.h"

namespace attnfuzz {

struct KnownFinding {
  std::string name;
  bool tolerated = false;
  NeededParts need;
  Case c;           // minimal, in the target's lane
  Verdict verdict;  // of the target
};

std::vector<KnownFinding> recall(const std::string& dir, const std::vector<CampaignTarget>& targets,
                                 const CampaignTarget& target, Target& worker);

}  // namespace attnfuzz
