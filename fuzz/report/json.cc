// A report as JSON: the archive's records, and their sums.
#include <algorithm>
#include <map>
#include <set>

#include "fuzz/campaign/store/archive_json.h"
#include "fuzz/campaign/triage/files/sequence_files.h"
#include "fuzz/report/report.h"
#include "properties/case/words.h"

namespace attnfuzz::report {
namespace {

constexpr size_t kMostText = 64 * 1024;
constexpr int kBins = 80;

uint64_t total(const Report& report, uint64_t SeriesLine::* field) {
  uint64_t sum = 0;
  for (const Shard& shard : report.shards) sum += last_of(shard).*field;
  return sum;
}

// For each target, the last line in each of kBins parts of the time. Lines are cumulative, so sums stay
// complete.
std::vector<SeriesLine> thinned(const std::vector<SeriesLine>& series, double end) {
  std::vector<SeriesLine> kept;
  std::set<std::pair<int, std::string>> seen;
  for (auto line = series.rbegin(); line != series.rend(); ++line) {
    if (seen.emplace(end > 0 ? static_cast<int>(kBins * line->t / end) : 0, line->target).second)
      kept.push_back(*line);
  }
  std::ranges::reverse(kept);
  return kept;
}

std::string replay_of(const FindingEntry& entry, const Report& report) {
  if (entry.reproducer) return replay_line(entry.file, entry.reproducer->kernel, entry.reproducer->peer);
  if (!is_of_sequences(entry.finding)) return replay_line(entry.file, "", "");
  const std::vector<TargetRecord>& all = report.header.targets;
  const auto target = std::ranges::find(all, entry.finding.target, &TargetRecord::name);
  TargetRecord unknown;
  unknown.kernel = "KERNEL";
  return sequence_replay_line(entry.file, target == all.end() ? unknown : *target);
}

Json finding_json(const FindingEntry& entry, const Report& report) {
  Json j = entry.finding;
  j["file"] = entry.file;
  j["replay"] = replay_of(entry, report);
  j["reproducer"] = entry.file_text.size() <= kMostText ? entry.file_text : "";
  j["picture"] = entry.picture ? picture_json(*entry.picture) : Json();
  return j;
}

Json entry_json(const CorpusEntry& entry) {
  Json j = entry;
  j["signals"] = entry.situations.size();
  j["edges"] = entry.edges.size();
  return j;
}

Json stats_json(const TargetStats& stats) {
  Json j = stats;
  j["broken_floors"] = stats.features.broken_floors({}, Classification::kByChance);
  return j;
}

// The row of each GPU: the cases of its jobs, and how busy it was, over all sessions that recorded it.
Json gpus_json(const Report& report) {
  struct Gpu {
    int jobs = 0;
    uint64_t cases = 0;
    double seconds = 0;  // the working time of its slowest job
    double busy = 0,
           busy_seconds = 0;  // the sum of share times seconds over the sessions; and these seconds
  };
  std::map<int, Gpu> gpus;
  for (const Shard& shard : report.shards) {
    const SeriesLine& last = last_of(shard);
    if (last.gpu < 0) continue;
    Gpu& gpu = gpus[last.gpu];
    ++gpu.jobs;
    gpu.cases += last.cases;
    gpu.seconds = std::max(gpu.seconds, last.wall);
  }
  for (const Session& session : report.header.sessions) {
    for (size_t n = 0; n < session.gpu_busy.size(); ++n) {
      const auto gpu = gpus.find(static_cast<int>(n));
      if (gpu == gpus.end()) continue;
      gpu->second.busy += session.gpu_busy[n] * session.seconds;
      gpu->second.busy_seconds += session.seconds;
    }
  }
  Json list = Json::array();
  for (const auto& [number, gpu] : gpus) {
    list.push_back({{"gpu", number},
                    {"jobs", gpu.jobs},
                    {"cases", gpu.cases},
                    {"rate", gpu.seconds > 0 ? static_cast<double>(gpu.cases) / gpu.seconds : 0},
                    {"busy", gpu.busy_seconds > 0 ? Json(gpu.busy / gpu.busy_seconds) : Json()}});
  }
  return list;
}

}  // namespace

const SeriesLine& last_of(const Shard& shard) {
  // The series is newer than the statistics, unless a kill cut it off.
  if (shard.series.empty() || shard.series.back().cases < shard.stats.last.cases) return shard.stats.last;
  return shard.series.back();
}

Json summary_json(const Report& report) {
  const auto fresh = static_cast<size_t>(std::ranges::count_if(
      report.findings, [](const FindingEntry& e) { return e.finding.tolerated.empty(); }));
  static constexpr const char* kCampaignStatuses[] = {"held", "found", "unknown"};
  uint64_t corpus = 0;
  for (const auto& [kernel, n] : report.corpus) corpus += n;
  uint64_t since_new = UINT64_MAX;
  for (const Shard& shard : report.shards) since_new = std::min(since_new, last_of(shard).since_new);
  const std::vector<CampaignPart> parts = parts_of(report.header);
  uint64_t warning_counts = 0, not_filed = 0, of_one_site = 0, long_parents = 0;
  SequenceStats sequences;
  for (const auto& [name, stats] : report.targets) {
    for (const auto& [sign, n] : stats.warning_counts) warning_counts += n;
    not_filed += never_looked_at(stats);
    of_one_site += stats.of_one_site + stats.sequences.of_one_site;
    long_parents += stats.long_parents;
    sequences.merge(stats.sequences);
  }
  return {{"standing", kCampaignStatuses[static_cast<int>(report.status)]},
          {"running", !parts.empty() && !parts.front().shards && parts.front().last.ended.empty()},
          {"t", report.explored},
          {"cases", total(report, &SeriesLine::cases)},
          {"rejected", total(report, &SeriesLine::rejected)},
          {"uninformative", total(report, &SeriesLine::uninformative)},
          {"failed", total(report, &SeriesLine::failed)},
          {"sequences", sequences.sequences},
          {"sequence_calls", sequences.calls},
          {"sequences_failed", sequences.failed},
          {"corpus", corpus},
          {"findings", fresh},
          {"known", report.findings.size() - fresh},
          {"never_again", report.never_again.size()},
          {"waiting", report.waiting},
          {"not_filed", not_filed},
          {"of_one_site", of_one_site},
          {"long_parents", long_parents},
          {"suspicious", warning_counts},
          {"canaries_missed", std::ranges::count_if(report.seeded_bugs,
                                                    [&](const SeededBugResult& seeded_bug) {
                                                      return is_missed(seeded_bug, report.header);
                                                    })},
          {"restarts", total(report, &SeriesLine::restarts)},
          {"since_new", report.shards.empty() ? 0 : since_new}};
}

Json report_json(const Report& report, const std::string& made) {
  Json j = {{"made", made},
            {"dir", report.dir},
            {"summary", summary_json(report)},
            {"problems", report.problems},
            {"not_judged", report.not_judged},
            {"explored", report.explored},
            {"end", report.end},
            {"campaign", report.header},
            {"findings", Json::array()},
            {"never_again", report.never_again},
            {"canaries", Json::array()},
            {"suspects", Json::array()},
            {"targets", Json::object()},
            {"shards", Json::array()},
            {"gpus", gpus_json(report)},
            {"corpus", report.corpus},
            {"newest", Json::array()}};
  for (const SeededBugResult& seeded_bug : report.seeded_bugs) {
    j["canaries"].push_back(seeded_bug);
    j["canaries"].back()["missed"] = is_missed(seeded_bug, report.header);
  }
  for (const FindingEntry& entry : report.findings) j["findings"].push_back(finding_json(entry, report));
  for (const WarningFile& s : report.warnings) {
    j["suspects"].push_back({{"file", s.file},
                             {"kernel", s.r.kernel},
                             {"message", s.r.message},
                             {"about", describe(s.r.c)},
                             {"replay", replay_line(s.file, s.r.kernel, s.r.peer)}});
  }
  for (const auto& [name, stats] : report.targets) {
    j["targets"][name] = stats_json(stats);
    if (const auto measured = report.coverage.find(name); measured != report.coverage.end()) {
      j["targets"][name]["coverage"] = measured->second.covered;
      j["targets"][name]["coverage"]["cases"] = measured->second.cases;
    }
  }
  for (const Shard& shard : report.shards) {
    j["shards"].push_back({{"number", shard.number},
                           {"last", last_of(shard)},
                           {"series", thinned(shard.series, report.explored)}});
  }
  for (const CorpusEntry& entry : report.newest) j["newest"].push_back(entry_json(entry));
  return j;
}

}  // namespace attnfuzz::report
