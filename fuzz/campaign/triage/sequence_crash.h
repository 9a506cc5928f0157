// Turns a failing sequence of calls into a finding: it is run again, reduced, named, counted and written, as
// triage.h describes it for a case.
//
//   1. It is run three times by itself, each time in a new process. If it never fails, it is run after those before
//      it in the same process: dependent on state. Otherwise it is run ten times: flaky, or never again.
//   2. It is reduced like a failure of `attnfuzz sequence`. The best file so far is always on disk, and the next
//      session goes on from it.
//   3. It is counted under a finding of sequences of calls that explains it (sequences_explained.h) and is not
//      tolerated; else under its
//      key: the kernel, the kind of failure, the call that fails, and the kinds of the reduced steps. It replaces
//      findings that need others before them, or are not fully reduced, if it explains them. Except at a
//      known place of death, no finding that is a case explains it. The sanitizers' builds do not run it.
#pragma once

#include "fuzz/campaign/triage/triage.h"
#include "properties/sequences/run/run.h"

namespace attnfuzz {

void examine_sequences(const Triage& t, const CampaignTarget& target, const Crash& crash);

// The key by which a campaign counts sequences of calls. `folder`: CampaignTarget::folder.
// `kind`: of the failure; `call`: SessionResult::call.
std::string sequences_key(const std::string& folder, const sequences::Chain& chain, const std::string& kind,
                          const std::string& call);

}  // namespace attnfuzz
