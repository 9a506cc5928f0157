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
#include <memory>
#include <string>
#include <vector>

#include "fuzz/campaign/archive.h"
#include "fuzz/campaign/ledger.h"
#include "fuzz/check/check.h"

namespace attnfuzz {

struct CampaignTarget {
  TargetRecord record;
  KernelInfo info;
  OpenTarget open;
  Calibration calibration;
  std::string folder;                       // of its kernel's corpus
  std::vector<const Property*> properties;  // those that speak of it
};
inline bool is_on_gpu(const CampaignTarget& target) { return target.record.backend == "cuda"; }

struct CampaignOptions {
  std::string dir;
  double seconds = 3600;
  uint64_t seed = 1;
  int jobs = 1;      // on the CPU
  int gpus = 0;      // devices to use
  int gpu_jobs = 2;  // on each: while one is judged, another runs
  int64_t work = Aim{}.work;
  double reduce_seconds = 60;  // for each crash
  double drain_seconds = 60;   // for crashes still waiting once the time is up
  double memory = 4e9;         // bytes that a job may come to hold
  double stuck_seconds = 300;  // that a case may take, all in all
  Ledger ledger;
  std::vector<std::string> command;
  std::string version;
};

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
  size_t waiting = 0;            // crashes not yet reduced
  std::string ended;
  bool harness_broken = false;  // a canary was not found
};

// Runs until the time is up or a signal (SIGINT, SIGTERM) comes. Throws
// std::runtime_error, with what to do, if the folder cannot be used.
CampaignSummary run_campaign(const CampaignOptions& options, const std::vector<CampaignTarget>& targets,
                             const OnEvent& event, const OnState& state);

}  // namespace attnfuzz
