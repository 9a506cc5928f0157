// One job's part of a check, the jobs of one process, and how their result crosses to the parent process.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "fuzz/batch/own_workers.h"
#include "fuzz/check/check.h"

namespace attnfuzz {

// The counters that jobs share while they run, in shared memory.
struct Shared {
  std::atomic<uint64_t> done = 0;
  std::atomic<uint64_t> first_failure = ~uint64_t{0};  // no case beyond it is needed
  std::atomic<bool> stop = false;
  static constexpr int kMostJobs = 1024;
  std::atomic<uint64_t> at[kMostJobs] = {};  // one more than the case that a job is at; 0: at none
};

// Case `index` as it is judged: drawn (for the path asked for, see kernel_path.h), and what its build decides
// of it; not yet adapted.
struct Drawn {
  Case c;
  const Property* property;
};
Drawn case_at(const GeneratorConfig& config, const CheckOptions& options, Target& target,
              const Calibration& calibration, uint64_t index, StreamDigest* digest = nullptr);

// Sets the parts of a drawn case that the build decides. In a build that looks for schedules every case has a
// random one; `index` varies it.
void enter_build(Case& c, const std::string& build_kind, uint64_t index);

// Adapts a case to the property; the verdict, if that says nothing about it.
std::optional<Verdict> rejected_by(const Property& property, Case& c, const Target& target);

// `own`: BatchJudge's, with a batch.
CheckResult run_shard(int job, Target& target, const Calibration& calibration, const CheckOptions& options,
                      Shared& shared, OwnWorkers* own = nullptr);

// Process n of process_count(options) runs the jobs n, n + process_count(), ...
int process_count(const CheckOptions& options);
// Runs these jobs, each in a thread if there are several, on one target, and those cases on others that no batch judges.
// Throws what a job throws, once all are done; std::runtime_error if a target cannot be opened.
CheckResult run_jobs(int process, const OpenTarget& open, const Calibration& calibration,
                     const CheckOptions& options, Shared& shared);

std::string serialize(const CheckResult& result);
// Reads text that serialize() made; throws std::runtime_error on any other.
CheckResult deserialize(const std::string& text);

}  // namespace attnfuzz
