#include "fuzz/campaign/store/campaign_status.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "fuzz/campaign/store/seeded_bug.h"
#include "fuzz/check/counts/enough.h"

namespace attnfuzz {

CampaignStatus campaign_status(const FindingsFile& findings, size_t waiting,
                               const std::vector<SeededBugResult>& seeded_bugs, const CampaignHeader& header,
                               const std::vector<std::string>& unjudged) {
  const auto is_new = [](const Finding& f) { return f.tolerated.empty(); };
  const auto missed = [&](const SeededBugResult& seeded_bug) {
    const auto n = static_cast<size_t>(seeded_bug.session);
    const std::string ended = n < header.sessions.size() ? header.sessions[n].ended : "?";
    return !seeded_bug.found && !ended.empty() && ended != "killed";
  };
  if (waiting > 0 || std::ranges::any_of(findings.findings, is_new) ||
      std::ranges::any_of(findings.never_again, is_new) || std::ranges::any_of(seeded_bugs, missed))
    return CampaignStatus::kFound;
  const bool cut_short = !header.sessions.empty() && header.sessions.back().ended == kDiskFull;
  return cut_short || !unjudged.empty() ? CampaignStatus::kUnknown : CampaignStatus::kPassed;
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

}  // namespace

std::vector<std::string> not_judged(const CampaignHeader& header,
                                    const std::map<std::string, TargetStats>& stats) {
  std::vector<std::string> targets;
  if (header.sessions.empty() || header.sessions.back().ended != "time") return targets;
  for (const TargetRecord& target : header.targets) {
    const auto found = stats.find(target.name);
    if (target.seeded_bug) continue;
    if (found != stats.end() && !found->second.oracle.device.empty() && found->second.oracle.fast == 0)
      targets.push_back(target.name +
                        ": the oracle on the GPU judged nothing: judge by the CPU's (--oracle cpu)");
    if (found != stats.end() && (found->second.batch.lost > 0 || !found->second.batch.left.empty()) &&
        found->second.batch.cleared + found->second.batch.doubted == 0)
      targets.push_back(target.name + ": nothing was judged in batches: leave --batch out");
    const std::string why = found == stats.end() ? "no case was drawn: run it longer"
                                                 : too_little_judged(found->second, target.name);
    if (!why.empty()) {
      targets.push_back(target.name + ": " + why);
      continue;
    }
    if (const std::string of_sequences = target.sequences ? sequences_not_judged(found->second) : "";
        !of_sequences.empty())
      targets.push_back(target.name + ": " + of_sequences);
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

std::vector<std::string> unlisted_findings(const std::string& dir, const FindingsFile& findings) {
  constexpr std::string_view kEndings[] = {".attn.json", ".calls.json"};
  std::vector<std::string> unlisted;
  const auto look = [&](const std::string& folder, const std::vector<Finding>& listed) {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
      const std::string file = entry.path().filename().string();
      const auto ending = std::ranges::find_if(kEndings, [&](auto one) { return file.ends_with(one); });
      if (ending == std::end(kEndings)) continue;
      const std::string name = file.substr(0, file.size() - ending->size());
      if (std::ranges::find(listed, name, &Finding::name) == listed.end())
        unlisted.push_back(entry.path().string() +
                           " exists, but findings.json does not list it: restore a copy "
                           "of findings.json, or move the file away");
    }
  };
  look(dir + "/findings", findings.findings);
  look(dir + "/never_again", findings.never_again);
  std::ranges::sort(unlisted);
  return unlisted;
}

namespace {

// A target's name is folder.backend.build_kind, and the folder may hold dots.
bool is_on_gpu(const std::string& target) {
  const size_t kind = target.rfind('.');
  return kind != std::string::npos && std::string_view(target).substr(0, kind).ends_with(".cuda");
}

bool has_ended(const Session& session) { return !session.ended.empty() && session.ended != "killed"; }

void note_lost_shards(const std::string& dir, const Session& session, const std::vector<int>& of_jobs,
                      std::vector<std::string>& lost) {
  const auto say = [&](const std::string& text) {
    if (std::ranges::find(lost, text) == lost.end()) lost.push_back(text);
  };
  for (const int n : session.shards) {
    if (!has_stats(dir, n))
      say(shard_dir(dir, n) + "/stats.json is missing: what this job has judged is not known");
  }
  for (const int n : of_jobs) {
    const std::string shard = shard_dir(dir, n);
    if (std::ranges::find(session.shards, n) != session.shards.end()) continue;
    if (!std::filesystem::exists(shard))
      say(shard + " is missing: what this job has judged is not known");
    else if (session.shards.empty() && !has_stats(dir, n) && !read_series(dir, n).empty())
      // A session of an older version has no list.
      say(shard + "/stats.json is missing: what this job has judged is not known");
  }
}

}  // namespace

bool is_merged(const CampaignHeader& header) {
  return header.command.size() > 1 && header.command[1] == "merge";
}

std::vector<int> shards_of_jobs(const CampaignHeader& header, const Session& session) {
  if (!session.job_shards.empty()) return session.job_shards;
  constexpr int kMost = 254;  // the most that a session may have; the header may be a stranger's
  // Older versions wrote a number of jobs also if no target was on the CPU. Then none of them existed.
  const bool gpu_only = !session.builds.empty() && std::ranges::all_of(session.builds, [](const auto& build) {
    return is_on_gpu(build.first);
  });
  std::vector<int> shards;
  if (gpu_only || is_merged(header)) return shards;
  for (int n = 0; n < std::min(session.jobs, kMost); ++n) shards.push_back(n);
  return shards;
}

std::vector<std::string> lost_parts(const std::string& dir, const CampaignHeader& header,
                                    const std::vector<SeededBugResult>& seeded_bugs) {
  std::vector<std::string> lost;
  for (size_t n = 0; n < header.sessions.size(); ++n) {
    const Session& session = header.sessions[n];
    if (!has_ended(session)) continue;
    note_lost_shards(dir, session, shards_of_jobs(header, session), lost);
    for (const auto& [target, build] : session.builds) {
      const bool there = std::ranges::any_of(seeded_bugs, [&](const SeededBugResult& result) {
        return result.session == static_cast<int>(n) && result.target == target;
      });
      if (is_seeded_bug(target) && !there)
        lost.push_back(dir + "/canary.json has no result of " + target + " in session " +
                       std::to_string(n + 1) + ": nothing shows that this session finds bugs");
    }
  }
  return lost;
}

std::string idle_jobs(const CampaignHeader& header) {
  if (header.sessions.empty() || header.sessions.back().shards.empty()) return "";
  const Session& session = header.sessions.back();
  const std::vector<int> shards = shards_of_jobs(header, session);
  std::string jobs;
  for (size_t n = 0; n < shards.size(); ++n) {
    if (std::ranges::find(session.shards, shards[n]) == session.shards.end())
      jobs += (jobs.empty() ? "" : ", ") + std::to_string(n);
  }
  return jobs.empty() ? "" : "of " + std::to_string(shards.size()) + " jobs these began no case: " + jobs;
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
      std::ranges::count_if(crashes, [](const Crash& crash) { return !is_seeded_bug(crash.target); }));
}

}  // namespace attnfuzz
