// A campaign: hours of checking that can be left alone.
//
//   1. start()     the supervisor makes or resumes the folder (archive.h) and forks
//                  a job a shard; a job's slice of time is spent on one target
//   2. explore()   a job draws, mutates and crosses cases, confirms what others
//                  found worth keeping, journals each case before it is launched,
//                  keeps what shows something new, files what fails (Crash)
//   3. triage()    one more process takes crashes as they come: runs each again in
//                  fresh processes, reduces it, counts it by the key of the reduced
//                  case, writes reproducer and issue text
//   4. the supervisor restarts what dies and ends what hangs or grows; a planted
//      bug, run first as a target like any other, shows that all this works
//
// Jobs and kernels may die at any moment, and so may the supervisor: the next
// start goes on from what is in the folder.
#pragma once

#include <vector>

#include "fuzz/campaign/run/campaign_result.h"
#include "fuzz/campaign/store/campaign_options.h"

namespace attnfuzz {

// Runs until the time is up or a signal (SIGINT, SIGTERM, SIGHUP) comes. Throws
// std::runtime_error, with what to do, if the folder cannot be used.
CampaignSummary run_campaign(const CampaignOptions& options, const std::vector<CampaignTarget>& targets,
                             const OnEvent& event, const OnState& state);

}  // namespace attnfuzz
