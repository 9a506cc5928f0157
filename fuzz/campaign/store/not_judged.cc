// Says of which targets too little was judged; declared in campaign_status.h.
#include <algorithm>

#include "fuzz/campaign/store/campaign_status.h"
#include "fuzz/campaign/store/seeded_bug.h"
#include "fuzz/check/counts/enough.h"

namespace attnfuzz {

std::vector<CampaignPart> parts_of(const CampaignHeader& header) {
  const std::vector<Session>& sessions = header.sessions;
  size_t theirs = 0;
  for (const MergedCampaign& merged : header.merged)
    theirs += static_cast<size_t>(std::max(merged.sessions, 0));
  if (sessions.empty()) return {};
  // A session that goes on from a merged folder has all of its shards.
  if (header.merged.empty() || theirs != sessions.size())
    return {{.dir = "", .last = sessions.back(), .targets = header.targets, .shards = std::nullopt}};
  std::vector<CampaignPart> parts;
  size_t end = 0;
  for (const MergedCampaign& merged : header.merged) {
    if (merged.sessions <= 0) continue;
    end += static_cast<size_t>(merged.sessions);
    parts.push_back(
        {.dir = merged.dir, .last = sessions[end - 1], .targets = merged.targets, .shards = merged.shards});
  }
  return parts;
}

namespace {

// Why the sequences of calls of a target do not pass; empty if they do.
std::string sequences_not_judged(const TargetStats& stats) {
  constexpr uint64_t kFewest = 50;  // an operation that is rarely drawn may be missing in fewer sequences
  const SequenceStats& s = stats.sequences;
  if (s.sequences == 0) return "no sequence of calls was run: run it longer";
  const std::string leave = "; leave out --sequences to judge cases only";
  if (s.judged.empty())
    return "of " + std::to_string(s.sequences) + " sequences of calls, no call was judged" + leave;
  uint64_t asked = 0, judged = 0;
  for (const auto& [operation, n] : s.asked) {
    const auto of = s.judged.find(operation);
    const uint64_t were = of == s.judged.end() ? 0 : of->second;
    asked += n, judged += were;
    if (were == 0 && s.sequences < kFewest) continue;
    const std::string why = too_few_calls_judged(n, were, "the operation " + operation);
    if (!why.empty()) return "in sequences of calls, " + why + leave;
  }
  const std::string why = too_few_calls_judged(asked, judged, "");
  return why.empty() ? "" : "in sequences of calls, " + why + leave;
}

// Why this target does not pass; one reason or several.
std::vector<std::string> target_not_judged(const TargetRecord& target, const TargetStats* stats) {
  if (stats == nullptr) return {"no case was drawn: run it longer"};
  std::vector<std::string> why;
  if (!stats->oracle.device.empty() && stats->oracle.fast == 0)
    why.emplace_back("the oracle on the GPU judged nothing: judge by the CPU's (--oracle cpu)");
  if ((stats->batch.lost > 0 || !stats->batch.left.empty()) && stats->batch.cleared + stats->batch.doubted == 0)
    why.emplace_back("nothing was judged in batches: leave --batch out");
  if (const std::string little = too_little_judged(*stats, target.name); !little.empty()) {
    why.push_back(little);
    return why;
  }
  if (const std::string of_sequences = target.sequences ? sequences_not_judged(*stats) : "";
      !of_sequences.empty())
    why.push_back(of_sequences);
  for (const std::string& name : target.properties) {
    const auto by = stats->properties.find(name);
    if (by == stats->properties.end() || by->second.cases == by->second.rejected)
      why.push_back("nothing was judged by " + name + ", which was asked for: attnfuzz check --property " +
                    name + " says why, or run it longer");
  }
  return why;
}

void add_not_judged(const CampaignPart& part, const std::map<std::string, TargetStats>& stats,
                    std::vector<std::string>& all) {
  const std::string in = part.dir.empty() ? "" : "in " + part.dir + ", ";
  const std::string& ended = part.last.ended;
  // A session of one folder that was broken off goes on. In a merge nothing goes on.
  const bool merged = !part.dir.empty();
  if (merged && (ended.empty() || ended == "killed"))
    all.push_back(in + "the last session still ran, or was killed, after " +
                  std::to_string(static_cast<int64_t>(part.last.seconds)) + " of " +
                  std::to_string(static_cast<int64_t>(part.last.asked)) +
                  " s: continue it, and merge again once it has ended");
  for (const TargetRecord& target : part.targets) {
    if (target.seeded_bug) continue;
    const auto found = stats.find(target.name);
    const TargetStats* const of = found == stats.end() ? nullptr : &found->second;
    if (ended == "time" || merged) {
      for (const std::string& why : target_not_judged(target, of)) all.push_back(in + target.name + ": " + why);
    }
    if (const uint64_t dropped = of == nullptr ? 0 : never_looked_at(*of); dropped > 0)
      all.push_back(in + target.name + ": " + std::to_string(dropped) +
                    " failure(s) were counted and never looked at, because many of their kind waited: mend the "
                    "bugs that are known, or quarantine what they need in the ledger");
  }
}

}  // namespace

std::vector<std::string> not_judged(const CampaignHeader& header, const StatsOfShards& shards) {
  std::vector<std::string> all;
  for (const CampaignPart& part : parts_of(header)) {
    std::map<std::string, TargetStats> stats;
    for (const auto& [n, targets] : shards) {
      if (part.shards && std::ranges::find(*part.shards, n) == part.shards->end()) continue;
      for (const auto& [name, of] : targets) stats[name].merge(of);
    }
    add_not_judged(part, stats, all);
  }
  return all;
}

}  // namespace attnfuzz
