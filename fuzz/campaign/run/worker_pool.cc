#include "fuzz/campaign/run/worker_pool.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "fuzz/campaign/run/explore.h"
#include "fuzz/campaign/store/journal.h"
#include "fuzz/campaign/store/machine.h"
#include "fuzz/host/processes.h"

namespace attnfuzz {
namespace {

constexpr uint64_t kCanaryCases = 4000;
constexpr double kCanarySeconds = 60;
constexpr int kMostFailedStarts = 5;

}  // namespace

WorkerPool::WorkerPool(const CampaignOptions& options, const std::vector<CampaignTarget>& targets,
                       std::vector<int> group_of, SharedState& shared, Canaries& canaries,
                       const SessionClock& clock, const EventLog& events)
    : options_(options),
      targets_(targets),
      group_of_(std::move(group_of)),
      shared_(shared),
      canaries_(canaries),
      clock_(clock),
      events_(events),
      gpus_(visible_gpus()),
      spent_(targets.size()),
      failed_starts_(targets.size()) {
  if (std::ranges::any_of(targets, [](const CampaignTarget& t) { return !is_on_gpu(t); }))
    add_places(options.jobs, 0);
  if (std::ranges::any_of(targets, is_on_gpu)) add_places(options.gpus * options.gpu_jobs, options.gpus);
  if (static_cast<int>(places_.size()) >= kMostJobs - 1) throw std::runtime_error("more than 254 jobs");
  for (const Place& place : places_) {
    const ShardStats stats = read_stats(options.dir, place.shard);
    slot(place).restarts = stats.last.restarts;
    // Who had least goes first, also after a resumption.
    for (size_t i = 0; i < targets.size(); ++i) {
      const auto of = stats.targets.find(targets[i].record.name);
      if (of != stats.targets.end()) spent_[i] += of->second.wall;
    }
  }
}

void WorkerPool::add_places(int count, int gpus) {
  for (int n = 0; n < count; ++n) {
    Place place;
    place.shard = static_cast<int>(places_.size());
    place.gpu = gpus > 0 ? n % gpus : -1;
    place.peer = n;
    place.peers = count;
    std::filesystem::create_directories(shard_dir(options_.dir, place.shard));
    places_.push_back(place);
  }
}

bool WorkerPool::can_be_run(int target) const {
  return !targets_[target].record.canary && failed_starts_[target] < kMostFailedStarts;
}

double WorkerPool::slice_seconds(int target) const {
  if (targets_[target].record.canary) return kCanarySeconds;
  const double share = std::chrono::duration<double>(clock_.end - clock_.start).count() / 20;
  return is_on_gpu(targets_[target]) ? std::clamp(2 * share, 5.0, 120.0) : std::clamp(share, 2.0, 30.0);
}

int WorkerPool::next_target(const Place& place) const {
  const bool gpu = place.gpu >= 0;
  const auto left = in_flight(shard_dir(options_.dir, place.shard));
  int best = -1;
  for (int n = 0; n < static_cast<int>(targets_.size()); ++n) {
    if (is_on_gpu(targets_[n]) != gpu || !can_be_run(n)) continue;
    if (left && targets_[n].record.name == left->target) return n;
    if (best < 0 || spent_[n] < spent_[best]) best = n;
  }
  if (const auto canary = canaries_.next(gpu)) return *canary;
  return best;
}

void WorkerPool::start() {
  for (Place& place : places_) {
    if (!place.works()) start(place, next_target(place));
  }
}

void WorkerPool::start_canaries() {
  for (Place& place : places_) {
    if (place.works()) continue;
    const auto target = canaries_.next(place.gpu >= 0);
    if (!target) continue;
    shared_.stop = false;
    start(place, *target);
  }
}

void WorkerPool::start(Place& place, int number) {
  place.target = number;
  if (number < 0) return;
  JobSlot& its = slot(place);
  its.message[0] = 0;
  its.waits = false;
  place.started = place.moved = Clock::now();
  place.cases_before = place.cases_seen = its.cases;
  const CampaignTarget& target = targets_[number];
  const bool canary = target.record.canary;
  const auto end = Clock::now() + seconds_long(slice_seconds(number));
  const Slice slice = {.options = options_,
                       .target = target,
                       .target_number = number,
                       .shared = shared_,
                       .group = shared_.groups[group_of_[number]],
                       .clock = clock_,
                       .end = canary ? end : std::min(end, clock_.end),
                       .shard = place.shard,
                       .peer = place.peer,
                       .peers = place.peers,
                       .gpu = place.gpu,
                       .most_cases = canary ? kCanaryCases : ~uint64_t{0}};
  const std::string gpu = place.gpu >= 0 && place.gpu < static_cast<int>(gpus_.size()) ? gpus_[place.gpu] : "";
  place.pid = start_child(
      [&] {
        if (!gpu.empty()) setenv("CUDA_VISIBLE_DEVICES", gpu.c_str(), 1);
        explore(slice);
      },
      its.message, sizeof its.message);
  spent_[number] += 1e-3;  // the next place takes another
}

void WorkerPool::look() {
  for (Place& place : places_) {
    if (!place.works()) continue;
    if (const auto ending = ended(place.pid)) {
      over(place, ending->how);
      continue;
    }
    const uint64_t cases = slot(place).cases;
    if (cases != place.cases_seen || slot(place).waits) {
      place.cases_seen = cases;
      place.moved = Clock::now();
    }
    if (seconds_since(place.moved) > options_.stuck_seconds) {
      end_child(place.pid);
      over(place, "stuck in one case for " + std::to_string(static_cast<int>(options_.stuck_seconds)) + " s");
    } else if (resident_bytes(place.pid) > options_.memory) {
      end_child(place.pid);
      over(place, "grown beyond its memory");
    }
  }
}

void WorkerPool::over(Place& place, const std::string& how) {
  const std::string& name = targets_[place.target].record.name;
  const double lasted = seconds_since(place.started);
  const uint64_t cases = slot(place).cases - place.cases_before;
  const std::string said = slot(place).message;
  int& failed_starts = failed_starts_[place.target];
  spent_[place.target] += lasted;
  place.pid = -1;
  if (targets_[place.target].record.canary) {
    canaries_.ran(place.target, cases, lasted);
    // Killed half-way: that was no answer.
    if (!how.empty() && failed_starts + 1 < kMostFailedStarts) canaries_.again(place.target);
  }
  if (!how.empty()) {
    ++slot(place).restarts;
    ++restarts_;
    const std::string why = said.empty() ? how : said;
    events_.say("restart", {{"shard", place.shard}, {"target", name}, {"why", why}});
    if (!said.empty()) last_failure_ = name + ": " + why;
    const bool counts = targets_[place.target].record.canary || (cases == 0 && !said.empty());
    if (counts && ++failed_starts == kMostFailedStarts)
      events_.say("given-up", {{"target", name}, {"why", why}});
  }
  if (cases > 0) failed_starts = 0;
}

void WorkerPool::end_all() {
  for (Place& place : places_) {
    if (place.works()) end_child(place.pid);
    place.pid = -1;
  }
}

bool WorkerPool::anyone_works() const { return std::ranges::any_of(places_, &Place::works); }

bool WorkerPool::canaries_run() const {
  return std::ranges::any_of(places_,
                             [&](const Place& p) { return p.works() && targets_[p.target].record.canary; });
}

bool WorkerPool::nothing_left() const {
  return std::ranges::all_of(places_, [](const Place& p) { return !p.works() && p.target < 0; });
}

bool WorkerPool::disk_full() const {
  return std::ranges::any_of(places_, [&](const Place& p) { return slot(p).waits.load(); });
}

bool WorkerPool::all_wait() const {
  return anyone_works() &&
         std::ranges::all_of(places_, [&](const Place& p) { return !p.works() || slot(p).waits; });
}

uint64_t WorkerPool::cases() const {
  uint64_t sum = 0;
  for (const Place& place : places_) sum += slot(place).cases;
  return sum;
}

}  // namespace attnfuzz
