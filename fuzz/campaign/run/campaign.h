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

#include <functional>
#include <string>
#include <vector>

#include "fuzz/campaign/store/archive.h"
#include "fuzz/campaign/store/campaign_options.h"
#include "fuzz/campaign/store/standing.h"

namespace attnfuzz {

// What happens, for a terminal or a stream; each is one JSON object with "event".
using OnEvent = std::function<void(const std::string& json)>;
struct CampaignState {
  double t = 0, left = 0;
  uint64_t cases = 0;
  double cases_per_second = 0;
  uint64_t corpus = 0, signals = 0, coverage = 0, waiting = 0, restarts = 0, since_new = 0;
  size_t findings = 0, tolerated = 0;
  bool disk_full = false, draining = false;
};
using OnState = std::function<void(const CampaignState& state)>;

struct CampaignSummary {
  CampaignHeader header;
  FindingsFile findings;
  std::vector<Canary> canaries;  // of this session
  size_t waiting = 0;            // failures not yet reduced
  std::string ended;
  bool harness_broken = false;  // a canary was not found
  Standing standing = Standing::kHeld;
};

// Runs until the time is up or a signal (SIGINT, SIGTERM, SIGHUP) comes. Throws
// std::runtime_error, with what to do, if the folder cannot be used.
CampaignSummary run_campaign(const CampaignOptions& options, const std::vector<CampaignTarget>& targets,
                             const OnEvent& event, const OnState& state);

}  // namespace attnfuzz
