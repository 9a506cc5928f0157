// The only process that reduces crashes. It is started while anything waits, and restarted after a pause if
// it dies.
//
//   TriageProcess triage(options, targets, shared, first_gpu, events);
//   while (...) triage.look();
//   triage.end();   // after the current step, or at once if that takes longer than a second
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "fuzz/campaign/run/event_log.h"
#include "fuzz/campaign/store/campaign_options.h"
#include "fuzz/campaign/store/jobs/session_clock.h"
#include "fuzz/campaign/store/jobs/shared_state.h"

namespace attnfuzz {

class TriageProcess {
 public:
  // `gpu`: the GPU that it may see; empty: all. The other arguments must outlive this.
  TriageProcess(const CampaignOptions& options, const std::vector<CampaignTarget>& targets, SharedState& shared,
                std::string gpu, const EventLog& events)
      : options_(options), targets_(targets), shared_(shared), gpu_(std::move(gpu)), events_(events) {}

  void look();
  // Tells everyone to finish (SharedState::finish).
  void end();

  bool runs() const { return pid_ >= 0; }
  size_t waiting() const;  // crashes not yet reduced
  uint64_t restarts() const { return restarts_; }
  bool waits_for_room() const { return slot().waits; }

 private:
  JobSlot& slot() const { return shared_.slots[kMostJobs - 1]; }

  const CampaignOptions& options_;
  const std::vector<CampaignTarget>& targets_;
  SharedState& shared_;
  const std::string gpu_;
  const EventLog& events_;
  pid_t pid_ = -1;
  uint64_t restarts_ = 0;
  Clock::time_point rest_;
};

}  // namespace attnfuzz
