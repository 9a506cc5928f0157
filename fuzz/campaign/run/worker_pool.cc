#include "fuzz/campaign/run/worker_pool.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "base/processes.h"
#include "fuzz/campaign/run/explore.h"
#include "fuzz/campaign/store/jobs/journal.h"
#include "fuzz/campaign/store/machine.h"

namespace attnfuzz {
namespace {

constexpr uint64_t kSeededBugCases = 4000;
constexpr double kSeededBugSeconds = 60;
constexpr int kMostFailedStarts = 5;

// Cases and sequences of calls.
uint64_t work_of(const JobSlot& slot) { return slot.cases + slot.sequences; }

}  // namespace

WorkerPool::WorkerPool(const CampaignOptions& options, const std::vector<CampaignTarget>& targets,
                       std::vector<int> group_of, SharedState& shared, SeededBugs& seeded_bugs,
                       const SessionClock& clock, const EventLog& events)
    : options_(options),
      targets_(targets),
      group_of_(std::move(group_of)),
      shared_(shared),
      seeded_bugs_(seeded_bugs),
      clock_(clock),
      events_(events),
      gpus_(visible_gpus()),
      spent_(targets.size()),
      failed_starts_(targets.size()) {
  add_places(cpu_jobs(options, targets), 0);
  if (std::ranges::any_of(targets, is_on_gpu)) add_places(options.gpus * options.gpu_jobs, options.gpus);
  if (static_cast<int>(seats_.size()) >= kMostJobs - 1) throw std::runtime_error("more than 254 jobs");
  for (const Seat& seat : seats_) {
    const ShardStats stats = read_stats(options.dir, seat.shard);
    slot(seat).restarts = stats.last.restarts;
    // The target with the least time goes first, also after a resumption.
    for (size_t i = 0; i < targets.size(); ++i) {
      const auto of = stats.targets.find(targets[i].record.name);
      if (of != stats.targets.end()) spent_[i] += of->second.wall;
    }
  }
}

void WorkerPool::add_places(int count, int gpus) {
  for (int n = 0; n < count; ++n) {
    Seat seat;
    seat.shard = static_cast<int>(seats_.size());
    seat.gpu = gpus > 0 ? n % gpus : -1;
    seat.sibling = n;
    seat.siblings = count;
    std::filesystem::create_directories(shard_dir(options_.dir, seat.shard));
    seats_.push_back(seat);
  }
}

bool WorkerPool::can_be_run(int target) const {
  return !targets_[target].record.seeded_bug && failed_starts_[target] < kMostFailedStarts;
}

double WorkerPool::slice_seconds(int target) const {
  if (targets_[target].record.seeded_bug) return kSeededBugSeconds;
  const double share = std::chrono::duration<double>(clock_.end - clock_.start).count() / 20;
  if (!is_on_gpu(targets_[target])) return std::clamp(share, 2.0, 30.0);
  // Opening a target on a GPU takes seconds, and longer if several jobs do it at once. If each
  // target has a job of its own, the jobs stay with their targets.
  const auto on_gpu = [](const Seat& seat) { return seat.gpu >= 0; };
  const bool all_at_once = std::ranges::count_if(seats_, on_gpu) >= std::ranges::count_if(targets_, is_on_gpu);
  return all_at_once ? 600.0 : std::clamp(2 * share, 5.0, 120.0);
}

int WorkerPool::next_target(const Seat& seat) const {
  const bool gpu = seat.gpu >= 0;
  const auto left = target_in_flight(shard_dir(options_.dir, seat.shard));
  int best = -1;
  for (int n = 0; n < static_cast<int>(targets_.size()); ++n) {
    if (is_on_gpu(targets_[n]) != gpu || !can_be_run(n)) continue;
    if (targets_[n].record.name == left) return n;
    if (best < 0 || spent_[n] < spent_[best]) best = n;
  }
  if (const auto seeded_bug = seeded_bugs_.next(gpu)) return *seeded_bug;
  return best;
}

void WorkerPool::start() {
  for (Seat& seat : seats_) {
    if (!seat.works()) start(seat, next_target(seat));
  }
}

void WorkerPool::start_seeded_bugs() {
  for (Seat& seat : seats_) {
    if (seat.works()) continue;
    const auto target = seeded_bugs_.next(seat.gpu >= 0);
    if (!target) continue;
    shared_.stop = false;
    start(seat, *target);
  }
}

void WorkerPool::start(Seat& seat, int number) {
  seat.target = number;
  if (number < 0) return;
  JobSlot& its = slot(seat);
  its.message[0] = 0;
  its.waits = false;
  seat.started = seat.moved = Clock::now();
  seat.cases_before = seat.cases_seen = work_of(its);
  const CampaignTarget& target = targets_[number];
  const bool seeded_bug = target.record.seeded_bug;
  const auto end = Clock::now() + seconds_long(slice_seconds(number));
  const Slice slice = {.options = options_,
                       .target = target,
                       .target_number = number,
                       .shared = shared_,
                       .group = shared_.groups[group_of_[number]],
                       .clock = clock_,
                       .end = seeded_bug ? end : std::min(end, clock_.end),
                       .shard = seat.shard,
                       .sibling = seat.sibling,
                       .siblings = seat.siblings,
                       .gpu = seat.gpu,
                       .most_cases = seeded_bug ? kSeededBugCases : ~uint64_t{0}};
  const std::string gpu = seat.gpu >= 0 && seat.gpu < static_cast<int>(gpus_.size()) ? gpus_[seat.gpu] : "";
  seat.pid = start_child(
      [&] {
        if (!gpu.empty()) setenv("CUDA_VISIBLE_DEVICES", gpu.c_str(), 1);
        explore(slice);
      },
      its.message, sizeof its.message);
  spent_[number] += 1e-3;  // so that the next seat takes another target
}

void WorkerPool::look() {
  for (Seat& seat : seats_) {
    if (!seat.works()) continue;
    if (const auto ending = ended(seat.pid)) {
      over(seat, ending->how);
      continue;
    }
    const uint64_t cases = work_of(slot(seat));
    if (cases != seat.cases_seen || slot(seat).waits) {
      seat.cases_seen = cases;
      seat.moved = Clock::now();
    }
    if (seconds_since(seat.moved) > options_.stuck_seconds) {
      end_child(seat.pid);
      over(seat, "stuck in one case for " + std::to_string(static_cast<int>(options_.stuck_seconds)) + " s");
    } else if (resident_bytes(seat.pid) > options_.memory) {
      end_child(seat.pid);
      over(seat, "grown beyond its memory");
    }
  }
}

void WorkerPool::over(Seat& seat, const std::string& how) {
  const std::string& name = targets_[seat.target].record.name;
  const double lasted = seconds_since(seat.started);
  const uint64_t cases = work_of(slot(seat)) - seat.cases_before;
  const std::string said = slot(seat).message;
  int& failed_starts = failed_starts_[seat.target];
  spent_[seat.target] += lasted;
  seat.pid = -1;
  if (targets_[seat.target].record.seeded_bug) {
    const bool cut_short = shared_.stop && cases < kSeededBugCases && lasted < kSeededBugSeconds;
    const bool again = !how.empty() && failed_starts + 1 < kMostFailedStarts;
    seeded_bugs_.ran(seat.target, cases, lasted, !again && !cut_short);
    if (again) seeded_bugs_.again(seat.target);  // it was killed half-way, so there is no result
  }
  if (!how.empty()) {
    note_shard_exit(shard_dir(options_.dir, seat.shard));
    ++slot(seat).restarts;
    ++restarts_;
    const std::string why = said.empty() ? how : said;
    events_.say("restart", {{"shard", seat.shard}, {"target", name}, {"why", why}});
    if (!said.empty()) last_failure_ = name + ": " + why;
    const bool counts = targets_[seat.target].record.seeded_bug || (cases == 0 && !said.empty());
    if (counts && ++failed_starts == kMostFailedStarts)
      events_.say("given-up", {{"target", name}, {"why", why}});
  }
  if (cases > 0) failed_starts = 0;
}

void WorkerPool::end_all() {
  for (Seat& seat : seats_) {
    if (seat.works()) end_child(seat.pid);
    seat.pid = -1;
  }
}

bool WorkerPool::anyone_works() const { return std::ranges::any_of(seats_, &Seat::works); }

bool WorkerPool::seeded_bugs_run() const {
  return std::ranges::any_of(seats_,
                             [&](const Seat& p) { return p.works() && targets_[p.target].record.seeded_bug; });
}

bool WorkerPool::nothing_left() const {
  return std::ranges::all_of(seats_, [](const Seat& p) { return !p.works() && p.target < 0; });
}

bool WorkerPool::disk_full() const {
  return std::ranges::any_of(seats_, [&](const Seat& p) { return slot(p).waits.load(); });
}

bool WorkerPool::all_wait() const {
  return anyone_works() &&
         std::ranges::all_of(seats_, [&](const Seat& p) { return !p.works() || slot(p).waits; });
}

uint64_t WorkerPool::cases() const {
  uint64_t sum = 0;
  for (const Seat& seat : seats_) sum += slot(seat).cases;
  return sum;
}

uint64_t WorkerPool::sequences() const {
  uint64_t sum = 0;
  for (const Seat& seat : seats_) sum += slot(seat).sequences;
  return sum;
}

}  // namespace attnfuzz
