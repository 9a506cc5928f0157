#include "fuzz/campaign/store/standing.h"

#include <algorithm>

namespace attnfuzz {

Standing standing(const FindingsFile& findings, size_t waiting, const std::vector<Canary>& canaries,
                  const CampaignHeader& header, const std::vector<std::string>& unjudged) {
  const auto is_new = [](const Finding& f) { return f.tolerated.empty(); };
  const auto missed = [&](const Canary& canary) {
    const auto n = static_cast<size_t>(canary.session);
    const std::string ended = n < header.sessions.size() ? header.sessions[n].ended : "?";
    return !canary.found && !ended.empty() && ended != "killed";
  };
  if (waiting > 0 || std::ranges::any_of(findings.findings, is_new) ||
      std::ranges::any_of(findings.never_again, is_new) || std::ranges::any_of(canaries, missed))
    return Standing::kFound;
  const bool cut_short = !header.sessions.empty() && header.sessions.back().ended == kDiskFull;
  return cut_short || !unjudged.empty() ? Standing::kUnknown : Standing::kHeld;
}

std::vector<std::string> not_judged(const CampaignHeader& header,
                                    const std::map<std::string, TargetStats>& stats) {
  std::vector<std::string> targets;
  if (header.sessions.empty() || header.sessions.back().ended != "time") return targets;
  for (const TargetRecord& target : header.targets) {
    const auto found = stats.find(target.name);
    uint64_t judged = 0, uninformative = 0;
    if (found != stats.end()) {
      for (const auto& [name, n] : found->second.properties)
        judged += n.passed + n.failed, uninformative += n.uninformative;
    }
    if (target.canary) continue;
    if (found != stats.end() && !found->second.oracle.device.empty() && found->second.oracle.fast == 0)
      targets.push_back(target.name +
                        ": the oracle on the GPU judged nothing: judge by the CPU's (--oracle cpu)");
    if (judged <= uninformative) {
      targets.push_back(target.name + ": " + std::to_string(judged) + " case(s) were judged, " +
                        std::to_string(uninformative) + " were uninformative: " +
                        (uninformative > 0 ? "its plan may claim too little" : "run it longer"));
      continue;
    }
    for (const std::string& name : target.properties) {
      const auto by = found->second.properties.find(name);
      if (by == found->second.properties.end() || by->second.cases == by->second.rejected)
        targets.push_back(target.name + ": nothing was judged by " + name +
                          ", which was asked for: attnfuzz check --property " + name +
                          " says why, or run it longer");
    }
  }
  return targets;
}

std::map<std::string, TargetStats> stats_of(const std::string& dir) {
  std::map<std::string, TargetStats> all;
  for (const int n : shards_of(dir)) {
    for (const auto& [name, stats] : read_stats(dir, n).targets) all[name].merge(stats);
  }
  return all;
}

size_t waiting_failures(const std::string& dir) {
  const std::vector<Crash> crashes = read_crashes(dir);
  return static_cast<size_t>(
      std::ranges::count_if(crashes, [](const Crash& crash) { return !crash.target.starts_with("canary."); }));
}

}  // namespace attnfuzz
