// One job's part of a check, the jobs of one process, and the text that carries their result to the
// parent process.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "fuzz/batch/own_workers.h"
#include "fuzz/check/check.h"
#include "fuzz/check/counts/kernel_path.h"

namespace attnfuzz {

// The counters that jobs share while they run, in shared memory.
struct Shared {
  std::atomic<uint64_t> done = 0;
  std::atomic<uint64_t> first_failure = ~uint64_t{0};  // cases beyond it need not run
  std::atomic<bool> stop = false;
  static constexpr int kMostJobs = 1024;
  std::atomic<uint64_t> at[kMostJobs] = {};  // 1 + the current case of each job; 0: no case
};

// Case `index` with its property: drawn (for the requested path, see kernel_path.h), with the parts
// that the build decides, but not yet adapted to the property.
Drawn case_at(const GeneratorConfig& config, const CheckOptions& options, Target& target,
              const Calibration& calibration, uint64_t index, StreamDigest* digest = nullptr);

// Sets the parts of a drawn case that the build decides. In the build `schedules` every case gets a
// random order of threads, which `index` varies.
void enter_build(Case& c, const std::string& build_kind, uint64_t index);

// Adapts a case to the property. Returns a verdict (refused) if the property does not apply to the
// case.
std::optional<Verdict> rejected_by(const Property& property, Case& c, const Target& target);

// Runs one job. `own`: see BatchJudge; used only with a batch.
CheckResult run_shard(int job, Target& target, const Calibration& calibration, const CheckOptions& options,
                      Shared& shared, OwnWorkers* own = nullptr);

// Process n of process_count(options) runs the jobs n, n + process_count(), ...
int process_count(const CheckOptions& options);
// Runs the jobs of a process on one target, each in a thread if there are several. Cases that no batch judges
// run on own workers. Throws what a job throws, when all are done; std::runtime_error if a target cannot be
// opened.
CheckResult run_jobs(int process, const OpenTarget& open, const Calibration& calibration,
                     const CheckOptions& options, Shared& shared);

std::string serialize(const CheckResult& result);
// Reads text that serialize() made; throws std::runtime_error on any other.
CheckResult deserialize(const std::string& text);

}  // namespace attnfuzz
