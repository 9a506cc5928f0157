#include "fuzz/campaign/store/campaign_status.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "fuzz/campaign/store/seeded_bug.h"

namespace attnfuzz {

bool is_missed(const SeededBugResult& seeded_bug, const CampaignHeader& header) {
  const auto n = static_cast<size_t>(seeded_bug.session);
  const std::string ended = n < header.sessions.size() ? header.sessions[n].ended : "?";
  return !seeded_bug.found && !seeded_bug.cut_short && !ended.empty() && ended != "killed";
}

CampaignStatus campaign_status(const FindingsFile& findings, size_t waiting,
                               const std::vector<SeededBugResult>& seeded_bugs, const CampaignHeader& header,
                               const std::vector<std::string>& unjudged) {
  const auto is_new = [](const Finding& f) { return f.tolerated.empty(); };
  const auto missed = [&](const SeededBugResult& seeded_bug) { return is_missed(seeded_bug, header); };
  if (waiting > 0 || std::ranges::any_of(findings.findings, is_new) ||
      std::ranges::any_of(findings.never_again, is_new) || std::ranges::any_of(seeded_bugs, missed))
    return CampaignStatus::kFound;
  const bool cut_short = std::ranges::any_of(
      parts_of(header), [](const CampaignPart& part) { return part.last.ended == kDiskFull; });
  return cut_short || !unjudged.empty() ? CampaignStatus::kUnknown : CampaignStatus::kPassed;
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
  std::string text;
  for (const CampaignPart& part : parts_of(header)) {
    if (part.last.shards.empty()) continue;
    const std::vector<int> shards = shards_of_jobs(header, part.last);
    std::string jobs;
    for (size_t n = 0; n < shards.size(); ++n) {
      if (std::ranges::find(part.last.shards, shards[n]) == part.last.shards.end())
        jobs += (jobs.empty() ? "" : ", ") + std::to_string(n);
    }
    if (jobs.empty()) continue;
    text += (text.empty() ? "" : "; ") + (part.dir.empty() ? "" : "in " + part.dir + ", ") + "of " +
            std::to_string(shards.size()) + " jobs these began no case: " + jobs;
  }
  return text;
}

StatsOfShards stats_of_shards(const std::string& dir) {
  StatsOfShards all;
  for (const int n : shards_of(dir)) all[n] = read_stats(dir, n).targets;
  return all;
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
