// The request for a campaign: its targets, its time, its machines.
//
//   CampaignOptions options;
//   options.dir = "night";
//   options.seconds = 8 * 3600;
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fuzz/campaign/store/archive.h"
#include "fuzz/campaign/store/ledger.h"
#include "fuzz/check/check.h"
#include "fuzz/check/failure/vote.h"

namespace attnfuzz {

struct CampaignTarget {
  TargetRecord record;
  KernelInfo info;
  OpenTarget open;
  Calibration calibration;
  std::string folder;                       // its kernel's folder in the corpus
  std::vector<const Property*> properties;  // the properties that apply to it
  uint32_t batch = 0;                       // cases that its GPU judges at once; 0: one by one
  Refused refused = {};                     // the kernel's refusals, found once for all processes
  OpenBuild open_build = {};                // opens its kernel in another build (vote.h); empty: none is tried
  // Puts a GPU's oracle before the CPU's (oracles.h); `all`: both judge everything. Empty: only the CPU's is
  // used. Call it only in a process that will not fork.
  std::function<void(Target&, bool all)> put_oracle = {};
};
inline bool is_on_gpu(const CampaignTarget& target) { return target.record.backend == "cuda"; }

// The target of this name, or nullptr.
inline const CampaignTarget* find_target(const std::vector<CampaignTarget>& targets, const std::string& name) {
  for (const CampaignTarget& target : targets) {
    if (target.record.name == name) return &target;
  }
  return nullptr;
}

struct CampaignOptions {
  std::string dir;
  double seconds = 3600;
  uint64_t seed = 1;
  int jobs = 1;         // on the CPU
  int gpus = 0;         // devices to use
  int gpu_jobs = 4;     // on each device: while one job judges, others run kernels
  int gpu_threads = 4;  // threads of each of these jobs, with batches: each prepares or compares a batch
  int gpu_own_workers = 2;  // of each of these jobs, with batches: for cases that no batch judges
  int64_t work = 0;         // CheckOptions::work
  int64_t device_work = kDeviceWork;  // with batches: CheckOptions::device_work
  bool finite = false;         // Q, K and V hold neither NaN nor infinity
  double reduce_seconds = 60;  // for each crash
  double drain_seconds = 60;   // for crashes that still wait once the time is up
  double memory = 4e9;         // the most bytes that a job may hold
  double stuck_seconds = 300;  // the longest that a case may take in all
  Ledger ledger;
  std::vector<std::string> command;
  std::string version;
};

// The number of processes on the CPU: none if no target is on the CPU.
inline int cpu_jobs(const CampaignOptions& options, const std::vector<CampaignTarget>& targets) {
  for (const CampaignTarget& target : targets) {
    if (!is_on_gpu(target)) return options.jobs;
  }
  return 0;
}

}  // namespace attnfuzz
