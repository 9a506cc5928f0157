// A campaign: hours of checking without supervision.
//
//   1. start()     the supervisor makes or resumes the folder (archive.h) and forks one job for each shard;
//                  a job spends its slice of time on one target
//   2. explore()   a job draws, mutates and crosses cases, and confirms cases that others kept; it journals
//                  each case before launching it, keeps cases that show something new, and files cases that fail
//                  (Crash); explore_sequences.h does the same for sequences of calls
//   3. triage()    another process takes crashes as they come: it runs each again in fresh processes, reduces
//                  it, counts it by the key of the reduced case, and writes reproducer and issue text
//   4. the supervisor restarts processes that die, and ends processes that hang or use too much memory;
//                  seeded bugs run first and show that all of this works
//
// Jobs and kernels may die at any moment, and so may the supervisor: the next start continues from the
// folder.
#pragma once

#include <vector>

#include "fuzz/campaign/run/campaign_result.h"
#include "fuzz/campaign/store/campaign_options.h"

namespace attnfuzz {

// Runs until the time is up or a signal (SIGINT, SIGTERM, SIGHUP) comes. Throws std::runtime_error, with
// what to do, if the folder cannot be used.
CampaignSummary run_campaign(const CampaignOptions& options, const std::vector<CampaignTarget>& targets,
                             const OnEvent& event, const OnState& state);

}  // namespace attnfuzz
