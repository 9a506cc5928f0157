// Checks that the failures that the ledger tolerates still fail, cases and sequences of calls. An unexpected
// pass is reported as an event.
//
// At the beginning of a session, the reproducer of each tolerated failure is run on the target that it
// names, after its trace if there is one beside it, until it fails, at most ten times, each in a fresh
// process. This happens beside the jobs, one reproducer after another, each in a child process.
//
//   Rechecks rechecks(options, targets, slot, gpu);
//   while (std::optional<Recheck> r = rechecks.step()) puts(r->text.c_str());  // and again later
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "fuzz/campaign/store/campaign_options.h"
#include "fuzz/campaign/store/jobs/session_clock.h"
#include "fuzz/campaign/store/jobs/shared_state.h"

namespace attnfuzz {

struct Recheck {
  enum class Answer { kFails, kHolds, kUnknown };
  std::string name;  // the entry's key
  Answer answer = Answer::kUnknown;
  std::string text;  // one sentence with what to do; empty if it fails as expected
};
const char* to_string(Recheck::Answer answer);  // "fails", "passes", "not known"

// Runs it now. A case that the ledger quarantines is not launched. If a sequence of calls passes but leaves out
// the call that failed, the answer is unknown.
Recheck recheck(const KnownFailure& known, const Ledger& ledger, const std::vector<CampaignTarget>& targets);

class Rechecks {
 public:
  // `gpu`: the GPU that its children may see; empty: all. The other arguments must outlive this.
  Rechecks(const CampaignOptions& options, const std::vector<CampaignTarget>& targets, JobSlot& slot,
           const std::string& gpu);
  ~Rechecks();
  Rechecks(const Rechecks&) = delete;
  Rechecks& operator=(const Rechecks&) = delete;

  // The results since the last call, one at a time; never waits.
  std::optional<Recheck> step();
  bool done() const { return child_ < 0 && next_ == due_.size(); }
  // Ends the running child. Returns an unknown answer for its failure and for all later ones.
  std::vector<Recheck> give_up();

 private:
  Recheck answer_of(const std::string& ending) const;

  const CampaignOptions& options_;
  const std::vector<CampaignTarget>& targets_;
  JobSlot& slot_;
  const std::string gpu_;
  std::vector<const KnownFailure*> due_;
  size_t next_ = 0;
  pid_t child_ = -1;  // runs due_[next_ - 1]
  Clock::time_point started_;
};

}  // namespace attnfuzz
