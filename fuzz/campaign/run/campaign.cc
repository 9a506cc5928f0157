#include "fuzz/campaign/run/campaign.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <stdexcept>

#include "base/processes.h"
#include "fuzz/campaign/run/event_log.h"
#include "fuzz/campaign/run/gpu_sampler.h"
#include "fuzz/campaign/run/seeded_bugs.h"
#include "fuzz/campaign/run/triage_process.h"
#include "fuzz/campaign/run/worker_pool.h"
#include "fuzz/campaign/store/archive_json.h"
#include "fuzz/campaign/store/coverage_file.h"
#include "fuzz/campaign/store/jobs/folder.h"
#include "fuzz/campaign/store/machine.h"
#include "fuzz/campaign/triage/recheck.h"

namespace attnfuzz {
namespace {

constexpr double kLookSeconds = 0.05, kStateSeconds = 0.5, kHeaderSeconds = 10, kEventSeconds = 10;
constexpr double kEndSeconds = 15;  // a job may take this long for its current case after it is told to stop
constexpr double kRoomSeconds = 3;  // how long to wait for room on the disk after the time is up

CampaignHeader enter(const CampaignOptions& options, const std::vector<CampaignTarget>& targets,
                     SharedState& shared) {
  if (targets.size() > kMostTargets) throw std::runtime_error("more than 128 targets");
  const auto old = read_header(options.dir);
  CampaignHeader header = begin_session(options, targets);
  load_shared_state(options.dir, targets, groups_of(targets), old, shared);
  return header;
}

std::string first_gpu() {
  const std::vector<std::string> gpus = visible_gpus();
  return gpus.empty() ? "" : gpus[0];
}

std::vector<std::string> names_of(const std::vector<CampaignTarget>& targets) {
  std::vector<std::string> names;
  for (const CampaignTarget& t : targets) names.push_back(t.record.name);
  return names;
}

// Writes one of the supervisor's own files. Does nothing if the disk is full, because a later write may
// succeed.
void keep(const std::function<void()>& write) {
  try {
    write();
  } catch (const std::exception& error) {
    if (!is_disk_full(error)) throw;
  }
}

class Supervisor {
 public:
  Supervisor(const CampaignOptions& options, const std::vector<CampaignTarget>& targets, const OnEvent& event,
             const OnState& state)
      : options_(options),
        targets_(targets),
        state_(state),
        lock_(options.dir),
        shared_(make_shared_state()),
        header_(enter(options, targets, *shared_)),
        session_(header_.sessions.back()),
        clock_(session_.from),
        events_(options.dir, clock_, event),
        seeded_bugs_(options.dir, targets, static_cast<int>(header_.sessions.size()) - 1),
        pool_(options, targets, groups_of(targets), *shared_, seeded_bugs_, clock_, events_),
        triage_(options, targets, *shared_, first_gpu(), events_),
        rechecks_(options, targets, shared_->slots[kMostJobs - 2], first_gpu()),
        gpu_sampler_(visible_gpus(), options.gpus) {}

  CampaignSummary run() {
    clock_.run_for(session_.asked);
    events_.say("start", {{"dir", options_.dir},
                          {"targets", names_of(targets_)},
                          {"from", session_.from},
                          {"seconds", session_.asked},
                          {"notes", session_.notes}});
    while (Clock::now() < clock_.end && !interrupts_.came()) {
      pool_.look();
      pool_.start();
      look_at_tolerated();
      look_around();
      if (pool_.nothing_left()) throw std::runtime_error("no target can be run: " + pool_.last_failure());
    }
    run_out();
    const bool was_full = disk_full();
    pool_.end_all();
    drain();
    session_.seconds = clock_.lasted();
    session_.gpu_busy = gpu_sampler_.busy();
    session_.ended = interrupts_.came() ? "interrupted" : was_full || disk_full() ? kDiskFull : "time";
    return sum_up();
  }

 private:
  void look_around() {
    triage_.look();
    tell();
    usleep(static_cast<useconds_t>(kLookSeconds * 1e6));
  }

  // Finishes the current cases, and runs seeded bugs that a short campaign did not reach.
  void run_out() {
    draining_ = true;
    const bool owed = !interrupts_.came();
    shared_->stop = !owed || !seeded_bugs_left();
    const auto stopped = Clock::now();
    while (pool_.anyone_works() || (owed && seeded_bugs_.due())) {
      pool_.look();
      if (owed) pool_.start_seeded_bugs();
      if (!seeded_bugs_left()) shared_->stop = true;
      look_around();
      const bool blocked = pool_.all_wait();
      const bool patient = !blocked && !interrupts_.came() && seeded_bugs_left();
      if (!patient && seconds_since(stopped) > (blocked ? kRoomSeconds : kEndSeconds)) return;
    }
  }

  bool seeded_bugs_left() const { return pool_.seeded_bugs_run() || seeded_bugs_.due(); }

  // Reduces waiting crashes for a while; the next session takes the rest.
  void drain() {
    const auto begun = Clock::now();
    while ((triage_.waiting() > 0 || triage_.runs() || !rechecks_.done()) && !interrupts_.came() &&
           !disk_full() && seconds_since(begun) < options_.drain_seconds) {
      look_at_tolerated();
      look_around();
    }
    triage_.end();
    for (const Recheck& recheck : rechecks_.give_up()) tell_recheck(recheck);
    events_.look_at_findings();
  }

  CampaignSummary sum_up() {
    CampaignSummary summary;
    summary.ended = session_.ended;
    summary.signal = interrupts_.signal();
    seeded_bugs_.conclude(session_.ended == kDiskFull ? "; the disk was full" : "", interrupts_.came());
    for (const int n : shards_of(options_.dir)) {
      if (has_stats(options_.dir, n)) session_.shards.push_back(n);
    }
    keep([&] { seeded_bugs_.write(); });
    keep([&] { write_header(options_.dir, header_); });
    summary.header = header_;
    summary.findings = read_findings(options_.dir);
    summary.seeded_bugs = seeded_bugs_.of_session();
    for (const SeededBugResult& seeded_bug : summary.seeded_bugs) {
      summary.harness_broken |= is_missed(seeded_bug, header_);
      events_.say("canary", seeded_bug);
    }
    summary.waiting = waiting_failures(options_.dir);
    summary.not_judged = not_judged(header_, stats_of_shards(options_.dir));
    std::ranges::move(lost_parts(options_.dir, header_, read_seeded_bugs(options_.dir)),
                      std::back_inserter(summary.not_judged));
    if (summary.waiting == 0)
      std::ranges::move(unlisted_findings(options_.dir, summary.findings),
                        std::back_inserter(summary.not_judged));
    summary.status =
        campaign_status(summary.findings, summary.waiting, summary.seeded_bugs, header_, summary.not_judged);
    try {
      read_coverage(options_.dir);
    } catch (const std::runtime_error& error) {
      summary.unkept = error.what();
      if (summary.status == CampaignStatus::kPassed) summary.status = CampaignStatus::kUnknown;
    }
    Json end = state_now();
    end["waiting"] = summary.waiting;  // counted in the folder, because counts in shared memory may be too high
    end["ended"] = session_.ended;
    end["harness_broken"] = summary.harness_broken;
    events_.say("end", end);
    return summary;
  }

  // Each check of a tolerated failure is an event; an unexpected answer is also a note.
  void look_at_tolerated() {
    while (const auto recheck = rechecks_.step()) tell_recheck(*recheck);
  }

  void tell_recheck(const Recheck& recheck) {
    events_.say("tolerated",
                {{"name", recheck.name}, {"now", to_string(recheck.answer)}, {"what", recheck.text}});
    if (recheck.text.empty()) return;
    session_.notes.push_back(recheck.text);
    keep([&] { write_header(options_.dir, header_); });
  }

  bool disk_full() const { return triage_.waits_for_room() || pool_.disk_full(); }

  CampaignState state_now() {
    CampaignState s;
    s.t = clock_.now();
    s.left = clock_.left();
    s.cases = pool_.cases();
    s.sequences = pool_.sequences();
    for (const Group& group : shared_->groups) {
      s.corpus += group.entries;
      s.situations += group.known_situations;
      s.coverage += group.known_edges;
    }
    s.waiting = triage_.waiting();
    s.restarts = pool_.restarts() + triage_.restarts();
    s.findings = events_.findings();
    s.tolerated = events_.tolerated();
    s.disk_full = disk_full();
    s.draining = draining_;
    const double window = seconds_since(rate_at_);
    if (window > 2) {
      rate_ = static_cast<double>(s.cases - rate_cases_) / window;
      rate_cases_ = s.cases;
      rate_at_ = Clock::now();
    }
    s.cases_per_second = rate_;
    return s;
  }

  void tell() {
    if (seconds_since(told_state_) < kStateSeconds) return;
    told_state_ = Clock::now();
    events_.look_at_findings();
    if (!draining_) gpu_sampler_.look();
    const CampaignState s = state_now();
    state_(s);
    if (s.disk_full != was_full_) {
      was_full_ = s.disk_full;
      events_.say(
          s.disk_full ? "disk-full" : "disk-has-room",
          {{"dir", options_.dir},
           {"what", s.disk_full ? "make room: nothing runs until then, and nothing is lost" : "goes on"}});
    }
    if (seconds_since(told_event_) > kEventSeconds) {
      told_event_ = Clock::now();
      events_.say("state", s);
    }
    if (seconds_since(told_header_) > kHeaderSeconds) {
      told_header_ = Clock::now();
      session_.seconds = clock_.lasted();
      session_.gpu_busy = gpu_sampler_.busy();
      keep([&] { write_header(options_.dir, header_); });
    }
  }

  const CampaignOptions& options_;
  const std::vector<CampaignTarget>& targets_;
  const OnState& state_;
  FolderLock lock_;
  Interrupts interrupts_;
  SharedStatePtr shared_;
  CampaignHeader header_;
  Session& session_;
  SessionClock clock_;
  EventLog events_;
  SeededBugs seeded_bugs_;
  WorkerPool pool_;
  TriageProcess triage_;
  Rechecks rechecks_;
  GpuSampler gpu_sampler_;
  Clock::time_point told_state_, told_event_, told_header_, rate_at_;
  uint64_t rate_cases_ = 0;
  double rate_ = 0;
  bool was_full_ = false, draining_ = false;
};

}  // namespace

CampaignSummary run_campaign(const CampaignOptions& options, const std::vector<CampaignTarget>& targets,
                             const OnEvent& event, const OnState& state) {
  try {
    std::filesystem::create_directories(options.dir);
    return Supervisor(options, targets, event, state).run();
  } catch (const std::system_error& error) {
    if (!is_disk_full(error)) throw;
    throw std::runtime_error("there is no room for " + options.dir + " (" + error.what() +
                             "): make some and start again; what is in the folder stays");
  }
}

}  // namespace attnfuzz
