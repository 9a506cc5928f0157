// A job's slice of a campaign: one target, for some seconds.
//
// Each step takes one case. If the archive has entries that this target has not run, every second step
// takes one of them. Otherwise half of the cases are drawn, and half are mutated or crossed from the
// archive. A quarter of the time goes to sequences of calls if the target's record has them
// (explore_sequences.h). Each pair of shard and target has its own stream, whose numbers continue over slices
// and sessions.
#pragma once

#include "fuzz/campaign/store/campaign_options.h"
#include "fuzz/campaign/store/jobs/session_clock.h"
#include "fuzz/campaign/store/jobs/shared_state.h"

namespace attnfuzz {

struct Slice {
  const CampaignOptions& options;
  const CampaignTarget& target;
  int target_number;  // in SharedState::waiting
  SharedState& shared;
  Group& group;
  const SessionClock& clock;
  Clock::time_point end;  // the end of this slice
  int shard;
  int sibling = 0,
      siblings = 1;  // position among the shards that may run this target; they share confirmations
  int gpu = -1;
  uint64_t most_cases = ~uint64_t{0};  // for a seeded bug's slice, which also ends at its first crash
};

// Throws std::runtime_error if the target cannot be opened, std::system_error if the folder cannot be written.
void explore(const Slice& slice);

}  // namespace attnfuzz
