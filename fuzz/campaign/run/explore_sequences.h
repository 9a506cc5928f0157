// The part of a job's slice that runs sequences of calls on the slice's target (docs/sequences.md).
//
//   SequenceExplorer sequences(slice, stats, [&](const auto& write) { ... });
//   sequences.resume();                          // what was in flight when the shard's process ended
//   while (sequences.due(wall)) sequences.next();
//
// The kernel's library gets a worker of its own, so that no case depends on a sequence of calls or the other
// way round, and a new process for every 50 sequences, after a failure, and at the beginning of a slice. A
// failure is filed together with the sequences that ran before it in the same process. The kernel is alone:
// other kernels' calls are made by the model of the cache. Each pair of shard and target has its own stream of
// sequences.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/campaign/run/crash_filing.h"
#include "fuzz/campaign/run/explore.h"
#include "fuzz/campaign/run/observed_target.h"
#include "fuzz/campaign/store/archive.h"
#include "fuzz/campaign/store/jobs/sequence_journal.h"
#include "properties/sequences/run/relations.h"

namespace attnfuzz {

// Why no sequence of calls can run on the target; empty if some can.
std::string no_sequences_on(Target& target);

class SequenceExplorer {
 public:
  // Calls a function that writes to the folder; it may wait for room on the disk.
  using Save = std::function<void(const std::function<void()>& write)>;
  // The slice and `stats`, where it counts, must outlive this. Reads the shard's journal. Opens the target when
  // it is first needed.
  SequenceExplorer(const Slice& slice, ShardStats& stats, Save save);

  // True if sequences have had less than their share of the `wall` seconds that the shard has spent on the
  // target.
  bool due(double wall) const;
  // Runs one. Throws std::runtime_error if the target cannot be opened.
  void next();
  // True if the next one gets a new process.
  bool at_border() const;
  void resume();
  double kernel_seconds() const { return observed_ ? observed_->kernel_seconds() : 0; }

 private:
  void open();
  sequences::Session drawn(uint64_t number) const;
  // `counted`: its statistics were saved before a kill, and it runs again for the state that it leaves.
  void judge(const sequences::Session& session, uint64_t number, bool counted);
  void count(const sequences::Session& session, const sequences::SessionResult& result);
  void file(const sequences::Session& session, uint64_t number, const Verdict& verdict,
            const std::string& call);
  SequenceStats& counts() { return stats_.targets[name_].sequences; }

  const Slice& s_;
  ShardStats& stats_;
  const Save save_;
  const std::string name_, folder_;
  const std::vector<JournaledSequence> interrupted_;
  SequenceJournal journal_;
  std::unique_ptr<Target> target_;
  std::optional<ObservedTarget> observed_;
  sequences::SessionTargets kernels_;
  uint64_t stream_ = 0, features_ = 0;
  std::vector<attn_domain> domains_;
  std::vector<sequences::Session> before_;  // in this process of the library
  bool new_process_ = true;
  int hangs_ = 0;
  CrashFiling filing_;
};

}  // namespace attnfuzz
