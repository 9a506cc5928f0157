// Turns a crash into a finding: it is run again, reduced, named, counted and written. A crash is any failure
// that a job has filed, wrong numbers too.
//
//   0. A failure in which the kernel died or hung at the place of a known finding is counted there
//      (finding_list.h), without being run.
//   1. It is run three times, each in a fresh process. If all fail, it is deterministic. If none fails, it is run after
//      the cases that preceded it. If it then fails, it depends on state, and a tail of the trace that suffices is kept.
//      In all other cases it is run up to ten times: flaky (k of n), or never again.
//   2. If an existing finding explains it (explained.h), it is counted there. Otherwise it is reduced, unless
//      it needs other cases to fail. A finding that the ledger tolerates explains nothing, so that it hides no other
//      bug: a failure counts there if its reduction reaches the finding's case or ends with its key. The best case so far is always on disk, and the next session continues an
//      interrupted reduction. A failure that fails every time is then run under other thread orders and in the
//      sanitizers' builds. If a sanitizer reports a fault, the case is reduced again there (fuzz/check/failure/vote.h).
//   3. It is counted under a finding that explains the reduced case and is not tolerated; else under the reduced case's dedupe key,
//      whatever build or back end showed it. The first of a key gets its files, and replaces findings that it
//      explains.
//   4. The crash's folder is removed last, so a kill at any moment counts nothing twice.
//
// A crash that is a sequence of calls is examined likewise (sequence_crash.h).
//
// One process at a time does this for a campaign.
#pragma once

#include "fuzz/campaign/store/campaign_options.h"
#include "fuzz/campaign/store/jobs/shared_state.h"

namespace attnfuzz {

struct Triage {
  const CampaignOptions& options;
  const std::vector<CampaignTarget>& targets;
  SharedState& shared;
  std::atomic<bool>& waits;  // set while it waits for room on the disk
};

// Takes crashes until none is left or SharedState says finish.
void triage(const Triage& t);

// For the supervisor of the campaign in `dir`: the triage process died while the supervisor lived. This
// counts against the crash in hand, which is given up after the second time.
void note_triage_exit(const std::string& dir);

// A reproducer whose dedupe_key() is the key by which a campaign counts findings. It leaves out what depends on
// how the failure was discovered: the build and back end; whether dim_qk or dim_v is the large one; and for an
// odd layout, which of Q, K and V has it, and all sizes but dim_v.
Reproducer without_build(Reproducer r, const std::string& kernel);

// choose_crash() returns the index of the next crash. Crashes whose target and kind have been examined least
// come first; among them, the one whose features differ most from those examined.
struct Looked {
  std::string target, kind;
  std::vector<std::string> features;
};
Looked look(const Crash& crash);
size_t choose_crash(const std::vector<Crash>& crashes, const std::vector<Looked>& looked);

}  // namespace attnfuzz
