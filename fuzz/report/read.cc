#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <tuple>

#include "fuzz/report/report.h"
#include "properties/sequences/session/codec.h"

namespace attnfuzz::report {
namespace {

// A file that is cut short or of another format affects only its own part of the page.
void attempt(Report& report, const std::function<void()>& read) {
  try {
    read();
  } catch (const std::exception& e) {
    report.problems.emplace_back(e.what());
  }
}

FindingEntry entry_of(const std::string& dir, const Finding& finding, Report& report) {
  FindingEntry entry;
  entry.finding = finding;
  entry.file = dir + "/findings/" + file_name_of(finding);
  auto text = read_file(entry.file, kInFolder);
  if (auto* error = std::get_if<DecodeError>(&text)) {
    report.problems.push_back(error->message);
    return entry;
  }
  entry.file_text = std::get<std::string>(text);
  if (is_of_sequences(finding)) {
    const auto read = sequences::decode_session(entry.file_text);
    if (const auto* error = std::get_if<DecodeError>(&read))
      report.problems.push_back(entry.file + " holds no sequence of calls: " + error->message);
    return entry;
  }
  auto decoded = decode_reproducer(entry.file_text);
  if (auto* error = std::get_if<DecodeError>(&decoded)) {
    report.problems.push_back(entry.file + " is no reproducer: " + error->message);
    return entry;
  }
  Reproducer& r = std::get<Reproducer>(decoded);
  if (const auto why = illegal(r.c)) {
    report.problems.push_back(entry.file + " holds a case that cannot be run: " + *why);
    return entry;
  }
  const std::string picture = dir + "/findings/" + finding.name + ".picture.json";
  if (std::filesystem::exists(picture)) attempt(report, [&] { entry.picture = read_picture(picture); });
  if (!entry.picture)
    entry.picture = picture_without_error(r.c, "Without the error: none was drawn when the failure was found.");
  entry.reproducer = std::move(r);
  return entry;
}

}  // namespace

Report read_report(const std::string& dir) {
  Report report;
  report.dir = dir;
  while (report.dir.size() > 1 && report.dir.back() == '/') report.dir.pop_back();
  auto header = read_header(report.dir);
  if (!header) {
    throw std::runtime_error("there is no campaign in " + dir +
                             " (no campaign.json): give the folder that attnfuzz campaign had as --out");
  }
  report.header = std::move(*header);
  for (const int n : shards_of(report.dir)) {
    Shard shard;
    shard.number = n;
    attempt(report, [&] { shard.series = read_series(report.dir, n); });
    attempt(report, [&] { shard.stats = read_stats(report.dir, n); });
    std::ranges::sort(shard.series, {}, [](const SeriesLine& line) { return std::pair(line.t, line.cases); });
    if (!shard.series.empty()) report.explored = std::max(report.explored, shard.series.back().t);
    for (const auto& [name, stats] : shard.stats.targets) report.targets[name].merge(stats);
    report.shards.push_back(std::move(shard));
  }
  attempt(report, [&] {
    FindingsFile file = read_findings(report.dir);
    std::ranges::sort(file.findings, {},
                      [](const Finding& f) { return std::tuple(!f.tolerated.empty(), f.t, f.name); });
    for (const Finding& finding : file.findings)
      report.findings.push_back(entry_of(report.dir, finding, report));
    report.never_again = std::move(file.never_again);
  });
  attempt(report, [&] { report.coverage = read_coverage(report.dir); });
  attempt(report, [&] {
    report.seeded_bugs = read_seeded_bugs(report.dir);
    std::ranges::move(lost_parts(report.dir, report.header, report.seeded_bugs),
                      std::back_inserter(report.problems));
  });
  attempt(report, [&] { report.warnings = read_warnings(report.dir, &report.problems); });
  attempt(report, [&] { report.waiting = waiting_failures(report.dir); });
  attempt(report, [&] {
    std::vector<CorpusEntry> corpus = read_corpus(report.dir);
    for (const CorpusEntry& entry : corpus) ++report.corpus[entry.kernel];
    std::ranges::sort(corpus, {}, [](const CorpusEntry& e) { return std::pair(e.t, e.id); });
    const size_t few = std::min<size_t>(corpus.size(), 12);
    report.newest.assign(corpus.end() - static_cast<std::ptrdiff_t>(few), corpus.end());
    std::ranges::reverse(report.newest);
  });
  report.end = report.explored;
  for (const Session& session : report.header.sessions)
    report.end = std::max(report.end, session.from + session.seconds);
  FindingsFile found;
  found.never_again = report.never_again;
  for (const FindingEntry& entry : report.findings) found.findings.push_back(entry.finding);
  StatsOfShards stats;
  for (const Shard& shard : report.shards) stats[shard.number] = shard.stats.targets;
  report.not_judged = not_judged(report.header, stats);
  // An unlisted file is no finding, but it may be one that the list has lost. It may also be harmless: a kill
  // between two writes leaves the files of a finding that another one has replaced.
  if (report.waiting == 0 && report.problems.empty())
    std::ranges::move(unlisted_findings(report.dir, found), std::back_inserter(report.not_judged));
  report.status = campaign_status(found, report.waiting, report.seeded_bugs, report.header, report.not_judged);
  if (!report.problems.empty()) report.status = CampaignStatus::kUnknown;
  return report;
}

}  // namespace attnfuzz::report
