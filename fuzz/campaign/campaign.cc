#include "fuzz/campaign/campaign.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "fuzz/campaign/board.h"
#include "fuzz/campaign/explore.h"
#include "fuzz/campaign/folder.h"
#include "fuzz/campaign/journal.h"
#include "fuzz/campaign/json_text.h"
#include "fuzz/campaign/machine.h"
#include "fuzz/campaign/processes.h"
#include "fuzz/campaign/recheck.h"
#include "fuzz/campaign/triage.h"

namespace attnfuzz {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr double kLookSeconds = 0.05, kStateSeconds = 0.5, kHeaderSeconds = 10, kEventSeconds = 10;
constexpr double kEndSeconds = 15;  // that a job may take for the case in hand once it is told to stop
constexpr double kRoomSeconds = 3;  // that room on the disk is waited for once the time is up
constexpr uint64_t kCanaryCases = 4000;
constexpr int kMostFailedStarts = 5;

// A shard's place: who works there now.
struct Place {
  int shard = 0, gpu = -1, peer = 0, peers = 1;
  pid_t pid = -1;
  int target = -1;
  Clock::time_point started;
  uint64_t cases_before = 0, cases_seen = 0;
  Clock::time_point moved;  // when the number of cases last changed
};

class Supervisor {
 public:
  Supervisor(const CampaignOptions& options, const std::vector<CampaignTarget>& targets, const OnEvent& event,
             const OnState& state)
      : options_(options),
        targets_(targets),
        event_(event),
        state_(state),
        lock_(options.dir),
        board_(make_board()),
        group_of_(groups_of(targets)) {
    if (targets.size() > kMostTargets) throw std::runtime_error("more than 128 targets");
    const auto old = read_header(options.dir);
    header_ = begin_session(options, targets);
    session_ = &header_.sessions.back();
    load_board(options.dir, targets, group_of_, old, *board_);
    spent_.resize(targets.size());
    failed_starts_.resize(targets.size());
    gpus_ = visible_gpus();
    make_places();
    rechecks_.emplace(options, targets, board_->slots[kMostJobs - 2], first_gpu());
    plant_canaries();
    for (const Finding& f : read_findings(options.dir).findings) told_.insert(f.name);
  }

  CampaignSummary run() {
    start_ = Clock::now();
    end_ = start_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(session_->asked));
    say("start", {{"dir", options_.dir},
                  {"targets", names()},
                  {"from", session_->from},
                  {"seconds", session_->asked},
                  {"notes", session_->notes}});
    while (Clock::now() < end_ && !interrupts_.came()) {
      look();
      for (Place& place : places_) {
        if (place.pid < 0) start(place);
      }
      look_at_triage();
      look_at_tolerated();
      tell();
      if (nothing_left()) throw std::runtime_error("no target can be run: " + last_failure_);
      usleep(static_cast<useconds_t>(kLookSeconds * 1e6));
    }
    return finish();
  }

 private:
  double since(Clock::time_point then) const {
    return std::chrono::duration<double>(Clock::now() - then).count();
  }
  bool on_gpu(int target) const { return targets_[target].record.backend == "cuda"; }
  double now() const { return session_->from + since(start_); }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const CampaignTarget& t : targets_) names.push_back(t.record.name);
    return names;
  }

  void say(const char* event, Json more) {
    Json j = {{"event", event}, {"t", start_ == Clock::time_point{} ? session_->from : now()}};
    j.update(more);
    event_(json_text(j));
  }

  void make_places() {
    const auto any = [&](bool gpu) {
      for (size_t i = 0; i < targets_.size(); ++i) {
        if (on_gpu(static_cast<int>(i)) == gpu) return true;
      }
      return false;
    };
    int shard = 0;
    const auto add = [&](int n, int of, int gpu) {
      std::filesystem::create_directories(shard_dir(options_.dir, shard));
      Place place;
      place.shard = shard++;
      place.gpu = gpu;
      place.peer = n;
      place.peers = of;
      places_.push_back(place);
    };
    if (any(false)) {
      for (int n = 0; n < options_.jobs; ++n) add(n, options_.jobs, -1);
    }
    if (any(true)) {
      const int of = options_.gpus * options_.gpu_jobs;
      for (int n = 0; n < of; ++n) add(n, of, n % options_.gpus);
    }
    if (static_cast<int>(places_.size()) >= kMostJobs - 1) throw std::runtime_error("more than 254 jobs");
    for (Place& place : places_) {
      const ShardStats stats = read_stats(options_.dir, place.shard);
      board_->slots[place.shard].restarts = stats.last.restarts;
      // Who had least goes first, also after a resumption.
      for (size_t i = 0; i < targets_.size(); ++i) {
        const auto of = stats.targets.find(targets_[i].record.name);
        if (of != stats.targets.end()) spent_[i] += of->second.wall;
      }
    }
  }

  void plant_canaries() {
    canaries_ = read_canaries(options_.dir);
    const int session = static_cast<int>(header_.sessions.size()) - 1;
    for (size_t i = 0; i < targets_.size(); ++i) {
      if (!targets_[i].record.canary) continue;
      canaries_.push_back({targets_[i].record.name, session, false, 0, 0, "", "it has not been run"});
      canary_queue_.push_back(static_cast<int>(i));
    }
    write_canaries(options_.dir, canaries_);
  }

  double slice_seconds(int target) const {
    if (targets_[target].record.canary) return 60;
    const double share = session_->asked / 20;
    return on_gpu(target) ? std::clamp(2 * share, 5.0, 120.0) : std::clamp(share, 2.0, 30.0);
  }

  // The target whose case was in flight when this shard last ended; a canary; else
  // the one that has had least time.
  int next_target(const Place& place) {
    const bool gpu = place.gpu >= 0;
    if (const auto left = in_flight(shard_dir(options_.dir, place.shard))) {
      for (size_t i = 0; i < targets_.size(); ++i) {
        const int n = static_cast<int>(i);
        if (targets_[i].record.name == left->target && on_gpu(n) == gpu &&
            failed_starts_[i] < kMostFailedStarts && !targets_[i].record.canary)
          return n;
      }
    }
    for (auto at = canary_queue_.begin(); at != canary_queue_.end(); ++at) {
      if (on_gpu(*at) != gpu) continue;
      const int target = *at;
      canary_queue_.erase(at);
      return target;
    }
    int best = -1;
    for (size_t i = 0; i < targets_.size(); ++i) {
      const int n = static_cast<int>(i);
      if (targets_[i].record.canary || on_gpu(n) != gpu || failed_starts_[i] >= kMostFailedStarts) continue;
      if (best < 0 || spent_[i] < spent_[best]) best = n;
    }
    return best;
  }

  void start(Place& place) {
    place.target = next_target(place);
    if (place.target < 0) return;
    JobSlot& slot = board_->slots[place.shard];
    slot.message[0] = 0;
    slot.waits = false;
    place.started = place.moved = Clock::now();
    place.cases_before = place.cases_seen = slot.cases;
    const CampaignTarget& target = targets_[place.target];
    const auto length =
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(slice_seconds(place.target)));
    // A canary may go on beyond the end of a short campaign.
    const auto end = target.record.canary ? Clock::now() + length : std::min(Clock::now() + length, end_);
    const Slice slice = {options_,
                         target,
                         place.target,
                         *board_,
                         board_->groups[group_of_[place.target]],
                         place.shard,
                         place.peer,
                         place.peers,
                         place.gpu,
                         session_->from,
                         start_,
                         end,
                         target.record.canary ? kCanaryCases : ~uint64_t{0}};
    const std::string gpu =
        place.gpu >= 0 && place.gpu < static_cast<int>(gpus_.size()) ? gpus_[place.gpu] : "";
    place.pid = start_child(
        [&] {
          if (!gpu.empty()) setenv("CUDA_VISIBLE_DEVICES", gpu.c_str(), 1);
          explore(slice);
        },
        slot.message, sizeof slot.message);
    spent_[place.target] += 1e-3;  // the next place takes another
  }

  void look() {
    for (Place& place : places_) {
      if (place.pid < 0) continue;
      JobSlot& slot = board_->slots[place.shard];
      if (const auto ending = ended(place.pid)) {
        over(place, slot, ending->how);
        continue;
      }
      const uint64_t cases = slot.cases;
      if (cases != place.cases_seen || slot.waits) {
        place.cases_seen = cases;
        place.moved = Clock::now();
      }
      if (since(place.moved) > options_.stuck_seconds) {
        end_child(place.pid);
        over(place, slot,
             "stuck in one case for " + std::to_string(static_cast<int>(options_.stuck_seconds)) + " s");
      } else if (resident_bytes(place.pid) > options_.memory) {
        end_child(place.pid);
        over(place, slot, "grown beyond its memory");
      }
    }
  }

  void over(Place& place, JobSlot& slot, const std::string& how) {
    const CampaignTarget& target = targets_[place.target];
    const double lasted = since(place.started);
    const uint64_t cases = slot.cases - place.cases_before;
    spent_[place.target] += lasted;
    if (target.record.canary) {
      for (Canary& canary : canaries_) {
        if (canary.target != target.record.name ||
            canary.session + 1 != static_cast<int>(header_.sessions.size()))
          continue;
        canary.cases += cases;
        canary.seconds += lasted;
        canary.message = "it was not found in " + std::to_string(canary.cases) + " cases";
      }
      // Killed half-way: that was no answer.
      if (!how.empty() && ++failed_starts_[place.target] < kMostFailedStarts)
        canary_queue_.push_back(place.target);
    }
    if (!how.empty()) {
      ++slot.restarts;
      ++restarts_;
      const std::string why = slot.message[0] ? slot.message : how;
      say("restart", {{"shard", place.shard}, {"target", target.record.name}, {"why", why}});
      if (slot.message[0]) last_failure_ = target.record.name + ": " + why;
      if (cases == 0 && slot.message[0]) {
        if (++failed_starts_[place.target] == kMostFailedStarts)
          say("given-up", {{"target", target.record.name}, {"why", why}});
      }
    }
    if (cases > 0) failed_starts_[place.target] = 0;
    place.pid = -1;
  }

  bool nothing_left() const {
    return std::ranges::all_of(places_, [](const Place& p) { return p.pid < 0 && p.target < 0; });
  }

  size_t waiting() const {
    size_t sum = 0;
    for (size_t i = 0; i < targets_.size(); ++i) {
      for (int kind = 0; kind < kKinds; ++kind) sum += std::max<int32_t>(board_->waiting[i][kind], 0);
    }
    return sum;
  }

  void look_at_triage() {
    JobSlot& slot = board_->slots[kMostJobs - 1];
    if (triage_ >= 0) {
      const auto ending = ended(triage_);
      if (!ending) return;
      triage_ = -1;
      if (!ending->how.empty()) {
        ++restarts_;
        say("restart", {{"triage", true}, {"why", slot.message[0] ? slot.message : ending->how}});
        triage_rest_ = Clock::now() + std::chrono::seconds(1);
      }
    }
    if (waiting() == 0 || Clock::now() < triage_rest_) return;
    slot.message[0] = 0;
    const std::string gpu = first_gpu();
    triage_ = start_child(
        [&] {
          // On the first GPU, if a crash there waits.
          if (!gpu.empty()) setenv("CUDA_VISIBLE_DEVICES", gpu.c_str(), 1);
          triage({options_, targets_, *board_, slot.waits});
          // Counts that a kill left too high.
          for (auto& kinds : board_->waiting) {
            if (board_->finish) break;
            for (auto& n : kinds) n = 0;
          }
        },
        slot.message, sizeof slot.message);
  }

  std::string first_gpu() const { return gpus_.empty() ? "" : gpus_[0]; }

  // What is known and holds is as much news as what is unknown and fails.
  void look_at_tolerated() {
    while (const auto recheck = rechecks_->step()) tell_recheck(*recheck);
  }

  void tell_recheck(const Recheck& recheck) {
    say("tolerated", {{"name", recheck.name}, {"now", to_string(recheck.answer)}, {"what", recheck.text}});
    if (recheck.text.empty()) return;
    session_->notes.push_back(recheck.text);
    keep([&] { write_header(options_.dir, header_); });
  }

  bool disk_full() const {
    if (board_->slots[kMostJobs - 1].waits) return true;
    return std::ranges::any_of(places_, [&](const Place& p) { return board_->slots[p.shard].waits.load(); });
  }

  // Whatever still runs waits for room on the disk.
  bool all_wait() const {
    const auto runs = [](const Place& p) { return p.pid >= 0; };
    return std::ranges::any_of(places_, runs) && std::ranges::all_of(places_, [&](const Place& p) {
             return !runs(p) || board_->slots[p.shard].waits.load();
           });
  }

  CampaignState state_now() {
    CampaignState s;
    s.t = now();
    s.left = std::max(0.0, std::chrono::duration<double>(end_ - Clock::now()).count());
    for (const Place& place : places_) s.cases += board_->slots[place.shard].cases;
    for (const Group& group : board_->groups) {
      s.corpus += group.entries;
      s.signals += group.known_signals;
      s.coverage += group.known_coverage;
    }
    s.waiting = waiting();
    s.restarts = restarts_;
    s.findings = findings_;
    s.tolerated = tolerated_;
    s.disk_full = disk_full();
    s.draining = draining_;
    const double window = since(rate_at_);
    if (window > 2) {
      rate_ = static_cast<double>(s.cases - rate_cases_) / window;
      rate_cases_ = s.cases;
      rate_at_ = Clock::now();
    }
    s.cases_per_second = rate_;
    return s;
  }

  void tell() {
    if (since(told_state_) < kStateSeconds) return;
    told_state_ = Clock::now();
    tell_findings();
    const CampaignState s = state_now();
    state_(s);
    if (s.disk_full != was_full_) {
      was_full_ = s.disk_full;
      say(s.disk_full ? "disk-full" : "disk-has-room",
          {{"dir", options_.dir},
           {"what", s.disk_full ? "make room: nothing is run until then, and nothing is lost" : "goes on"}});
    }
    if (since(told_event_) > kEventSeconds) {
      told_event_ = Clock::now();
      say("state", {{"cases", s.cases},
                    {"cases_per_second", s.cases_per_second},
                    {"corpus", s.corpus},
                    {"signals", s.signals},
                    {"coverage", s.coverage},
                    {"findings", s.findings},
                    {"waiting", s.waiting},
                    {"restarts", s.restarts}});
    }
    if (since(told_header_) > kHeaderSeconds) {
      told_header_ = Clock::now();
      session_->seconds = since(start_);
      keep([&] { write_header(options_.dir, header_); });
    }
  }

  void tell_findings() {
    struct stat now = {};
    if (stat((options_.dir + "/findings.json").c_str(), &now) != 0) return;
    const auto same = [&](const struct stat& a) {
      return a.st_ino == now.st_ino && a.st_mtim.tv_nsec == now.st_mtim.tv_nsec &&
             a.st_mtim.tv_sec == now.st_mtim.tv_sec;
    };
    if (same(findings_stat_)) return;
    findings_stat_ = now;
    const FindingsFile all = read_findings(options_.dir);
    findings_ = tolerated_ = 0;
    for (const Finding& f : all.findings) {
      ++(f.tolerated.empty() ? findings_ : tolerated_);
      if (!told_.insert(f.name).second) continue;
      say("finding", {{"name", f.name},
                      {"target", f.target},
                      {"kind", f.kind},
                      {"property", f.property},
                      {"minimal", f.minimal},
                      {"message", f.message},
                      {"repeats", to_string(f.repeats)},
                      {"tolerated", f.tolerated},
                      {"file", options_.dir + "/findings/" + f.name + ".attn.json"}});
    }
  }

  // Of the supervisor itself: what a full disk does not take now it may take later.
  void keep(const std::function<void()>& write) {
    try {
      write();
    } catch (const std::exception& error) {
      if (!is_disk_full(error)) throw;
    }
  }

  CampaignSummary finish() {
    board_->stop = true;
    draining_ = true;
    const auto stopped = Clock::now();
    const bool canaries_due = !interrupts_.came();
    // Canaries that a short campaign did not come to are still owed.
    if (canaries_due) board_->stop = !canaries_running() && canary_queue_.empty();
    while (std::ranges::any_of(places_, [](const Place& p) { return p.pid >= 0; }) ||
           (canaries_due && !canary_queue_.empty())) {
      look();
      if (canaries_due && !canary_queue_.empty()) {
        for (Place& place : places_) {
          if (place.pid < 0 && !canary_queue_.empty()) start_canary(place);
        }
      }
      if (!canaries_running() && canary_queue_.empty()) board_->stop = true;
      look_at_triage();
      tell();
      const bool blocked = all_wait();
      const bool patient = !blocked && !interrupts_.came() && (canaries_running() || !canary_queue_.empty());
      if (since(stopped) > (blocked ? kRoomSeconds : kEndSeconds) && !patient) break;
      usleep(static_cast<useconds_t>(kLookSeconds * 1e6));
    }
    const bool was_full = disk_full();
    for (Place& place : places_) {
      if (place.pid >= 0) end_child(place.pid);
      place.pid = -1;
    }
    const auto drained = Clock::now();
    while ((waiting() > 0 || triage_ >= 0 || !rechecks_->done()) && since(drained) < options_.drain_seconds &&
           !interrupts_.came() && !disk_full()) {
      look_at_triage();
      look_at_tolerated();
      tell();
      usleep(static_cast<useconds_t>(kLookSeconds * 1e6));
    }
    board_->finish = true;
    if (triage_ >= 0) {
      for (int i = 0; i < 20 && !ended(triage_); ++i) usleep(50'000);
      end_child(triage_);
    }
    for (const Recheck& recheck : rechecks_->give_up()) tell_recheck(recheck);
    tell_findings();

    CampaignSummary summary;
    session_->seconds = std::min(since(start_), std::max(session_->asked, since(start_)));
    session_->ended = interrupts_.came() ? "interrupted" : was_full || disk_full() ? "disk full" : "time";
    merge_canaries();
    for (Canary& canary : canaries_) {
      if (session_->ended == "disk full" && !canary.found &&
          canary.session + 1 == static_cast<int>(header_.sessions.size()))
        canary.message += "; the disk was full";
    }
    keep([&] { write_canaries(options_.dir, canaries_); });
    keep([&] { write_header(options_.dir, header_); });
    summary.findings = read_findings(options_.dir);
    for (const Canary& canary : canaries_) {
      if (canary.session + 1 != static_cast<int>(header_.sessions.size())) continue;
      summary.canaries.push_back(canary);
      summary.harness_broken |= !canary.found;
      say("canary", {{"target", canary.target},
                     {"found", canary.found},
                     {"cases", canary.cases},
                     {"message", canary.message}});
    }
    summary.waiting = read_crashes(options_.dir).size();
    summary.ended = session_->ended;
    const CampaignState s = state_now();
    say("end", {{"ended", session_->ended},
                {"cases", s.cases},
                {"corpus", s.corpus},
                {"findings", s.findings},
                {"tolerated", s.tolerated},
                {"waiting", summary.waiting},
                {"restarts", s.restarts},
                {"harness_broken", summary.harness_broken}});
    summary.header = header_;
    return summary;
  }

  bool canaries_running() const {
    return std::ranges::any_of(places_,
                               [&](const Place& p) { return p.pid >= 0 && targets_[p.target].record.canary; });
  }

  void start_canary(Place& place) {
    const bool gpu = place.gpu >= 0;
    if (std::ranges::none_of(canary_queue_, [&](int target) { return on_gpu(target) == gpu; })) return;
    board_->stop = false;
    start(place);
  }

  // Whether it was found is the triage's word, how many cases that took ours.
  void merge_canaries() {
    for (const Canary& from : read_canaries(options_.dir)) {
      for (Canary& to : canaries_) {
        if (to.target != from.target || to.session != from.session || !from.found) continue;
        to.found = true;
        to.finding = from.finding;
        to.message = "";
      }
    }
  }

  const CampaignOptions& options_;
  const std::vector<CampaignTarget>& targets_;
  const OnEvent& event_;
  const OnState& state_;
  FolderLock lock_;
  Interrupts interrupts_;
  SharedBoard board_;
  std::vector<int> group_of_;
  CampaignHeader header_;
  Session* session_ = nullptr;
  std::vector<Place> places_;
  std::vector<double> spent_;
  std::vector<int> failed_starts_;
  std::vector<std::string> gpus_;
  std::vector<Canary> canaries_;
  std::vector<int> canary_queue_;
  std::optional<Rechecks> rechecks_;
  pid_t triage_ = -1;
  Clock::time_point triage_rest_;
  Clock::time_point start_, end_;
  Clock::time_point told_state_, told_event_, told_header_, rate_at_;
  uint64_t rate_cases_ = 0, restarts_ = 0;
  double rate_ = 0;
  size_t findings_ = 0, tolerated_ = 0;
  struct stat findings_stat_ = {};
  std::set<std::string> told_;
  std::string last_failure_;
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
