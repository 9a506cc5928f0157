// The jobs of a campaign: which target gets a shard's next slice of time, and what happens to a process
// that dies, hangs or grows.
//
//   WorkerPool pool(options, targets, group_of, shared, seeded_bugs, clock, events);
//   pool.start();       // starts a slice in every free seat
//   pool.look();        // handles ended processes, and ends stuck ones
//   pool.end_all();
//
// A slice goes to the target whose case was in flight when the shard last ended; else to a seeded bug that is
// due; else to the target that has had the least time. A target that could not be opened five times in a
// row is given up.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "fuzz/campaign/run/event_log.h"
#include "fuzz/campaign/run/seeded_bugs.h"
#include "fuzz/campaign/store/jobs/session_clock.h"
#include "fuzz/campaign/store/jobs/shared_state.h"

namespace attnfuzz {

class WorkerPool {
 public:
  // The arguments must outlive this. Makes the shards' folders. Throws std::runtime_error if there are too
  // many.
  WorkerPool(const CampaignOptions& options, const std::vector<CampaignTarget>& targets,
             std::vector<int> group_of, SharedState& shared, SeededBugs& seeded_bugs, const SessionClock& clock,
             const EventLog& events);

  void start();
  // Starts only seeded bugs in free seats. Their slices may continue after the session's end.
  void start_seeded_bugs();
  void look();
  void end_all();

  bool anyone_works() const;
  bool seeded_bugs_run() const;
  bool nothing_left() const;   // no target can be run any more: see last_failure()
  bool disk_full() const;      // some job waits for room
  bool all_wait() const;       // all working jobs wait for room
  uint64_t cases() const;      // of this session
  uint64_t sequences() const;  // of calls, likewise
  uint64_t restarts() const { return restarts_; }
  const std::string& last_failure() const { return last_failure_; }

 private:
  // A shard's seat, and the process in it.
  struct Seat {
    int shard = 0, gpu = -1, sibling = 0, siblings = 1;
    pid_t pid = -1;
    int target = -1;
    Clock::time_point started;
    uint64_t cases_before = 0, cases_seen = 0;  // sequences of calls included
    Clock::time_point moved;                    // when the number of cases last changed
    bool works() const { return pid >= 0; }
  };

  JobSlot& slot(const Seat& seat) const { return shared_.slots[seat.shard]; }
  bool can_be_run(int target) const;
  double slice_seconds(int target) const;
  int next_target(const Seat& seat) const;
  void add_places(int count, int gpus);
  void start(Seat& seat, int target);
  void over(Seat& seat, const std::string& how);

  const CampaignOptions& options_;
  const std::vector<CampaignTarget>& targets_;
  const std::vector<int> group_of_;
  SharedState& shared_;
  SeededBugs& seeded_bugs_;
  const SessionClock& clock_;
  const EventLog& events_;
  std::vector<std::string> gpus_;
  std::vector<Seat> seats_;
  std::vector<double> spent_;       // seconds, by target
  std::vector<int> failed_starts_;  // consecutive failures, by target
  uint64_t restarts_ = 0;           // unplanned restarts in this session
  std::string last_failure_;
};

}  // namespace attnfuzz
