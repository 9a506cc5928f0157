#include "fuzz/slurm/merge.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <stdexcept>

#include "base/files.h"
#include "fuzz/campaign/store/campaign_status.h"
#include "fuzz/campaign/store/coverage_file.h"
#include "fuzz/campaign/store/finding_list.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

// A folder that could be read completely.
struct Task {
  std::string dir;
  CampaignHeader header;
  FindingsFile findings;
  std::vector<SeededBugResult> seeded_bugs;
  std::vector<int> shards;
  std::vector<std::string> lost;  // lost_parts()
};

Task read_task(const std::string& dir) {
  Task task;
  task.dir = dir;
  auto header = read_header(dir);
  if (!header) throw std::runtime_error(dir + ": there is no campaign in it");
  if (header->sessions.empty()) throw std::runtime_error(dir + ": no session of its campaign has begun");
  task.header = std::move(*header);
  task.findings = read_findings(dir);
  task.seeded_bugs = read_seeded_bugs(dir);
  if (fs::is_symlink(dir + "/shards"))
    throw std::runtime_error(dir + "/shards is a link, which is not followed");
  task.shards = shards_of(dir);
  for (const int n : task.shards) read_stats(dir, n);  // throws before anything is written
  read_crashes(dir);                                   // throws if one is cut short
  task.lost = lost_parts(dir, task.header, task.seeded_bugs);
  return task;
}

// Copies files that are missing; equal names in two tasks have equal content. The folder may be a
// stranger's: links are not followed. Anything that is no regular file, or larger than any reader accepts,
// is not copied but named in `left_out`.
void copy_missing(const fs::path& from, const fs::path& to, std::vector<std::string>& left_out) {
  const fs::file_status status = fs::symlink_status(from);
  if (fs::is_symlink(status)) {
    left_out.push_back(from.string() + " is a link, which is not followed");
  } else if (fs::exists(status) && fs::exists(to) && fs::is_directory(status) != fs::is_directory(to)) {
    left_out.push_back(from.string() + " is a folder in one campaign and none in another");
  } else if (fs::is_directory(status)) {
    fs::create_directories(to);
    for (const auto& entry : fs::directory_iterator(from))
      copy_missing(entry.path(), to / entry.path().filename(), left_out);
  } else if (fs::exists(status) && !fs::is_regular_file(status)) {
    left_out.push_back(from.string() + " is no regular file");
  } else if (fs::exists(status) && fs::file_size(from) > static_cast<uintmax_t>(kInFolder.bytes)) {
    left_out.push_back(from.string() + " is larger than any file of a campaign");
  } else if (fs::exists(status) && !fs::exists(to)) {
    fs::copy_file(from, to);
  }
}

class Merge {
 public:
  explicit Merge(fs::path to) : to_(std::move(to)) {}

  void add(const Task& task, std::vector<std::string>& left_out) {
    const int first_session = static_cast<int>(header_.sessions.size());
    if (first_session == 0) header_ = base_of(task.header);
    for (const TargetRecord& target : task.header.targets) add_target(task, target);
    left_out.insert(left_out.end(), task.lost.begin(), task.lost.end());
    const std::map<int, int> shards = renumbered(task);
    for (Session session : task.header.sessions) {
      session.job_shards = shards_of_jobs(task.header, session);
      for (int& n : session.job_shards) n = shards.at(n);
      for (int& n : session.shards) n = shards.at(n);
      session.notes.insert(session.notes.begin(),
                           "in " + task.dir + ", seed " + std::to_string(task.header.seed));
      header_.sessions.push_back(std::move(session));
    }
    note_campaign(task, shards);
    header_.started = std::min(header_.started, task.header.started);
    for (SeededBugResult seeded_bug : task.seeded_bugs) {
      seeded_bug.session += first_session;
      seeded_bugs_.push_back(std::move(seeded_bug));
    }
    for (const auto& [n, to] : shards)
      copy_missing(shard_dir(task.dir, n), shard_dir(to_.string(), to), left_out);
    for (const char* folder : {"corpus", "findings", "never_again", "canary", "crashing", "suspicious"})
      copy_missing(fs::path(task.dir) / folder, to_ / folder, left_out);
    try {
      merge_coverage(task.dir, to_.string());
    } catch (const std::runtime_error& e) {
      left_out.emplace_back(e.what());
    }
    for (const Finding& finding : task.findings.findings) add_finding(finding);
    auto& never = findings_.never_again;
    never.insert(never.end(), task.findings.never_again.begin(), task.findings.never_again.end());
  }

  void write(const std::vector<std::string>& command, MergeSummary& summary) {
    header_.command = command;
    write_findings(to_.string(), findings_);
    write_seeded_bugs(to_.string(), seeded_bugs_);
    write_header(to_.string(), header_);
    summary.shards = static_cast<size_t>(shards_);
    summary.findings = findings_.findings.size();
    summary.same = same_;
    summary.corpus = read_corpus(to_.string()).size();
  }

 private:
  // The new number of each shard of a task. One that is lost has a number as well, so that its loss still
  // shows.
  std::map<int, int> renumbered(const Task& task) {
    std::map<int, int> numbers;
    for (const int n : task.shards) numbers.emplace(n, 0);
    for (const Session& session : task.header.sessions) {
      for (const int n : session.shards) numbers.emplace(n, 0);
      for (const int n : shards_of_jobs(task.header, session)) numbers.emplace(n, 0);
    }
    for (const MergedCampaign& merged : task.header.merged) {
      for (const int n : merged.shards) numbers.emplace(n, 0);
    }
    for (auto& [n, to] : numbers) to = shards_++;
    return numbers;
  }

  // Notes the campaign of a folder. If the folder is itself a merge, notes the campaigns that it took over.
  void note_campaign(const Task& task, const std::map<int, int>& shards) {
    const CampaignHeader& header = task.header;
    std::vector<MergedCampaign> campaigns = header.merged;
    if (parts_of(header).front().shards) {
      for (MergedCampaign& campaign : campaigns) {
        campaign.dir = task.dir + ": " + campaign.dir;
        for (int& n : campaign.shards) n = shards.at(n);
      }
    } else {
      MergedCampaign whole = {task.dir, header.targets, {}, static_cast<int>(header.sessions.size())};
      for (const auto& [n, to] : shards) whole.shards.push_back(to);
      campaigns = {whole};
    }
    std::ranges::move(campaigns, std::back_inserter(header_.merged));
  }

  static CampaignHeader base_of(CampaignHeader header) {
    header.targets.clear();
    header.sessions.clear();
    header.merged.clear();
    return header;
  }

  void add_target(const Task& task, const TargetRecord& target) {
    const auto same_name = [&](const TargetRecord& r) { return r.name == target.name; };
    const auto known = std::ranges::find_if(header_.targets, [&](const TargetRecord& r) {
      return same_name(r) && r.build == target.build && r.worker_build == target.worker_build;
    });
    if (known != header_.targets.end()) {
      known->sequences |= target.sequences;
      if (known->no_sequences.empty()) known->no_sequences = target.no_sequences;
      if (known->sequences) known->no_sequences.clear();
      return;
    }
    TargetRecord other = target;
    // Reported, because a finding of one build need not hold for the other.
    if (std::ranges::any_of(header_.targets, same_name))
      other.device += (other.device.empty() ? "" : "; ") + ("another build, in " + task.dir);
    header_.targets.push_back(std::move(other));
  }

  void add_finding(const Finding& finding) {
    const auto known = std::ranges::find_if(findings_.findings, [&](const Finding& f) {
      return f.key == finding.key && f.target == finding.target;
    });
    if (known == findings_.findings.end()) {
      findings_.findings.push_back(finding);
    } else {
      count_together(*known, finding);
      // The ledger of one campaign is not that of the others.
      if (finding.tolerated.empty()) known->tolerated.clear();
      known->failed += finding.failed;
      known->runs += finding.runs;
      if (known->repeats == Repeats::kAlways) known->repeats = finding.repeats;
      ++same_;
    }
  }

  const fs::path to_;
  CampaignHeader header_;
  FindingsFile findings_;
  std::vector<SeededBugResult> seeded_bugs_;
  int shards_ = 0;
  size_t same_ = 0;
};

// Throws unless `to` is empty or the result of a merge, which may be replaced.
void refuse_others(const std::string& to) {
  if (!fs::exists(to) || (fs::is_directory(to) && fs::is_empty(to))) return;
  bool merged = false;
  try {
    const auto header = read_header(to);
    merged = header && is_merged(*header);
  } catch (const std::runtime_error&) {
  }
  if (!merged)
    throw std::runtime_error(
        to + " exists, and is not from a merge: name another folder with --out, or move it away");
}

}  // namespace

MergeSummary merge_campaigns(const std::vector<std::string>& from, const std::string& to,
                             const std::vector<std::string>& command) {
  refuse_others(to);
  const fs::path place = fs::absolute(to).lexically_normal();
  const fs::path target = place.has_filename() ? place : place.parent_path();
  for (size_t i = 0; i < from.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      std::error_code none;
      if (fs::equivalent(from[i], from[j], none)) throw std::runtime_error(from[i] + " is given twice");
    }
  }
  for (const std::string& dir : from) {
    std::error_code none;
    if (fs::equivalent(dir, target, none))
      throw std::runtime_error(dir + " is to be merged, and --out as well: name another folder");
  }
  const fs::path building = target.string() + ".merging", old = target.string() + ".replaced";
  fs::remove_all(building);
  fs::create_directories(building);
  MergeSummary summary;
  Merge merge(building);
  for (const std::string& dir : from) {
    Task task;
    try {
      task = read_task(dir);
    } catch (const std::exception& e) {
      summary.left_out.emplace_back(e.what());
      continue;
    }
    merge.add(task, summary.left_out);
    ++summary.merged;
  }
  if (summary.merged == 0) {
    fs::remove_all(building);
    std::string why;
    for (const std::string& one : summary.left_out) why += "; " + one;
    throw std::runtime_error("there is nothing to merge" + why);
  }
  merge.write(command, summary);
  fs::remove_all(old);
  if (fs::exists(target)) fs::rename(target, old);
  fs::rename(building, target);
  fs::remove_all(old);
  return summary;
}

}  // namespace attnfuzz
