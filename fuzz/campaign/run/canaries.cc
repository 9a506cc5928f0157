#include "fuzz/campaign/run/canaries.h"

#include <algorithm>

namespace attnfuzz {

Canaries::Canaries(const std::string& dir, const std::vector<CampaignTarget>& targets, int session)
    : dir_(dir), targets_(targets), session_(session), all_(read_canaries(dir)) {
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!targets[i].record.canary) continue;
    all_.push_back({targets[i].record.name, session, false, 0, 0, "", "it has not been run"});
    queue_.push_back(static_cast<int>(i));
  }
  write();
}

bool Canaries::due(bool gpu) const {
  return std::ranges::any_of(queue_, [&](int target) { return is_on_gpu(targets_[target]) == gpu; });
}

std::optional<int> Canaries::next(bool gpu) {
  const auto at = std::ranges::find_if(queue_, [&](int t) { return is_on_gpu(targets_[t]) == gpu; });
  if (at == queue_.end()) return std::nullopt;
  const int target = *at;
  queue_.erase(at);
  return target;
}

Canary* Canaries::mine(const std::string& target) {
  for (Canary& canary : all_) {
    if (canary.target == target && canary.session == session_) return &canary;
  }
  return nullptr;
}

void Canaries::ran(int target, uint64_t cases, double seconds) {
  Canary& canary = *mine(targets_[target].record.name);
  canary.cases += cases;
  canary.seconds += seconds;
  canary.message = "it was not found in " + std::to_string(canary.cases) + " cases";
}

void Canaries::conclude(const std::string& excuse) {
  for (const Canary& from : read_canaries(dir_)) {
    for (Canary& to : all_) {
      if (to.target != from.target || to.session != from.session || !from.found) continue;
      to.found = true;
      to.finding = from.finding;
      to.message = "";
    }
  }
  for (Canary& canary : all_) {
    if (canary.session == session_ && !canary.found) canary.message += excuse;
  }
}

void Canaries::write() const { write_canaries(dir_, all_); }

std::vector<Canary> Canaries::of_session() const {
  std::vector<Canary> result;
  std::ranges::copy_if(all_, std::back_inserter(result),
                       [&](const Canary& c) { return c.session == session_; });
  return result;
}

}  // namespace attnfuzz
