// From a crash to a finding: run again, reduced, named, counted, written.
//
//   0. counted under the finding that died or is stuck at the same place in the kernel's
//      code (finding_list.h), without being run
//   1. run again three times, each in a fresh process: deterministic; if none failed,
//      after the cases that came before it: dependent on state (the shortest end of the
//      trace that makes it fail is kept); else up to ten times: flaky, k of n, or never again
//   2. if a finding that is there already explains it (explained.h), counted there;
//      else reduced, unless it takes other cases to fail; the best so far is always on
//      disk, and where it was broken off the next session goes on from there. What fails every
//      time is then asked again under other orders of threads and in the sanitizers' lanes: the
//      first that reports something takes it over (fuzz/check/vote.h)
//   3. counted under a finding that explains the reduced case; else under the dedupe
//      key of that, whatever lane or back end showed it: the first of a key gets its
//      files, and takes the place of findings that it explains
//   4. the crash's folder goes last: a kill at any moment counts nothing twice
//
// One process at a time does this for a campaign.
#pragma once

#include <chrono>

#include "fuzz/campaign/store/campaign_options.h"
#include "fuzz/campaign/store/shared_state.h"

namespace attnfuzz {

struct Triage {
  const CampaignOptions& options;
  const std::vector<CampaignTarget>& targets;
  SharedState& shared;
  std::atomic<bool>& waits;  // for room on the disk
};

// Takes crashes until none is left or the shared says finish.
void triage(const Triage& t);

// For the supervisor of the campaign in `dir`: the process that looked died while the supervisor lived. Counted
// against the crash that it had in hand, which is not looked at again after the second time.
void note_triage_death(const std::string& dir);

// The key that findings of a campaign are counted by: dedupe_key() of the reduced
// case without what happened to show it: lane and back end; which head dim it was;
// of an odd layout what it is like, which of Q, K and V has it, and which sizes make
// strides matter.
Reproducer without_lane(Reproducer r, const std::string& kernel);

// Which of the waiting crashes to take next: of the target and kind that had least
// attention, the one whose features are least like what has been looked at.
struct Looked {
  std::string target, kind;
  std::vector<std::string> features;
};
Looked look(const Crash& crash);
size_t choose_crash(const std::vector<Crash>& crashes, const std::vector<Looked>& looked);

}  // namespace attnfuzz
