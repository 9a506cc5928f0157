#include "fuzz/campaign/run/seeded_bugs.h"

#include <algorithm>

namespace attnfuzz {

SeededBugs::SeededBugs(const std::string& dir, const std::vector<CampaignTarget>& targets, int session)
    : dir_(dir), targets_(targets), session_(session), all_(read_seeded_bugs(dir)) {
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!targets[i].record.seeded_bug) continue;
    all_.push_back({targets[i].record.name, session, false, 0, 0, "", "it has not been run"});
    queue_.push_back(static_cast<int>(i));
  }
  write();
}

bool SeededBugs::due(bool gpu) const {
  return std::ranges::any_of(queue_, [&](int target) { return is_on_gpu(targets_[target]) == gpu; });
}

std::optional<int> SeededBugs::next(bool gpu) {
  const auto at = std::ranges::find_if(queue_, [&](int t) { return is_on_gpu(targets_[t]) == gpu; });
  if (at == queue_.end()) return std::nullopt;
  const int target = *at;
  queue_.erase(at);
  return target;
}

SeededBugResult* SeededBugs::mine(const std::string& target) {
  for (SeededBugResult& seeded_bug : all_) {
    if (seeded_bug.target == target && seeded_bug.session == session_) return &seeded_bug;
  }
  return nullptr;
}

void SeededBugs::ran(int target, uint64_t cases, double seconds, bool to_the_end) {
  if (to_the_end) ended_.insert(targets_[target].record.name);
  SeededBugResult& seeded_bug = *mine(targets_[target].record.name);
  seeded_bug.cases += cases;
  seeded_bug.seconds += seconds;
  seeded_bug.message = "it was not found in " + std::to_string(seeded_bug.cases) + " cases";
}

void SeededBugs::conclude(const std::string& excuse, bool interrupted) {
  std::set<std::string> waits;  // the triage has not examined their failures
  if (interrupted) {
    for (const Crash& crash : read_crashes(dir_)) waits.insert(crash.target);
  }
  for (const SeededBugResult& from : read_seeded_bugs(dir_)) {
    for (SeededBugResult& to : all_) {
      if (to.target != from.target || to.session != from.session) continue;
      if (!from.finding.empty()) ended_.insert(to.target);
      if (!from.found) continue;
      to.found = true;
      to.finding = from.finding;
      to.message = "";
    }
  }
  for (SeededBugResult& seeded_bug : all_) {
    if (seeded_bug.session != session_ || seeded_bug.found) continue;
    seeded_bug.message += excuse;
    seeded_bug.cut_short =
        interrupted && (!ended_.contains(seeded_bug.target) || waits.contains(seeded_bug.target));
  }
}

void SeededBugs::write() const { write_seeded_bugs(dir_, all_); }

std::vector<SeededBugResult> SeededBugs::of_session() const {
  std::vector<SeededBugResult> result;
  std::ranges::copy_if(all_, std::back_inserter(result),
                       [&](const SeededBugResult& c) { return c.session == session_; });
  return result;
}

}  // namespace attnfuzz
