#include "fuzz/campaign/store/standing.h"

#include <algorithm>
#include <stdexcept>

#include "fuzz/campaign/store/coverage_file.h"

namespace attnfuzz {

Standing standing(const FindingsFile& findings, size_t waiting, const std::vector<Canary>& canaries,
                  const CampaignHeader& header) {
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
  return cut_short ? Standing::kUnknown : Standing::kHeld;
}

size_t waiting_failures(const std::string& dir) {
  const std::vector<Crash> crashes = read_crashes(dir);
  return static_cast<size_t>(
      std::ranges::count_if(crashes, [](const Crash& crash) { return !crash.target.starts_with("canary."); }));
}

Standing standing_of(const std::string& dir) {
  const auto header = read_header(dir);
  if (!header) throw std::runtime_error("there is no campaign in " + dir);
  read_coverage(dir);
  return standing(read_findings(dir), waiting_failures(dir), read_canaries(dir), *header);
}

}  // namespace attnfuzz
