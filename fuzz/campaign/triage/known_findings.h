// The findings of a campaign that may explain a new failure.
//
//   for (const KnownFinding& known : recall(dir, targets, target, worker))
//     if (explains(known.need, c, verdict, judge_it).answer == Explains::kYes) ...
//
// These findings are cases, not sequences of calls. They fail every time, by themselves (property `reference`),
// and are fully reduced. They may come from any back end and build of one kernel. Each is judged once more on
// the current target, whose tiles give lengths their meaning.
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
  Case c;           // reduced, in the target's build
  Verdict verdict;  // on the target
};

std::vector<KnownFinding> recall(const std::string& dir, const std::vector<CampaignTarget>& targets,
                                 const CampaignTarget& target, Target& worker);

}  // namespace attnfuzz
