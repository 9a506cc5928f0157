// The report of a campaign's folder: one JSON object, and one HTML page that draws it and loads nothing
// else.
//
//   1. read_report(dir)   everything in the folder (campaign/store/archive.h). Files that cannot be read are
//                         named in `problems`; the rest is shown. Nothing is run: findings have their pictures
//   2. report_json(...)   the same for programs: report.json, and `attnfuzz status --json`
//   3. report_page(...)   page.html with that JSON in it
//
//   Report report = read_report("night");        // throws: no campaign there
//   const auto json = report_json(report, utc_now());
//   write_file("night/report.json", json_text(json, 1));
//   write_file("night/report.html", report_page(json));
//
// The page inserts every text of a file as text, and its content policy lets no other script run. A hostile
// folder can only make the page look odd.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "fuzz/campaign/store/archive.h"
#include "fuzz/campaign/store/campaign_status.h"
#include "fuzz/campaign/store/coverage_file.h"
#include "fuzz/campaign/store/warnings.h"
#include "fuzz/campaign/triage/files/case_picture.h"
#include "properties/reduce/reproducer.h"

namespace attnfuzz::report {

struct Shard {
  int number = 0;
  std::vector<SeriesLine> series;
  ShardStats stats;
};

struct FindingEntry {
  Finding finding;
  std::string file;       // the reproducer's, or that of the sequence of calls, as a replay line takes it
  std::string file_text;  // its content
  std::optional<Reproducer> reproducer;  // of a case
  std::optional<CasePicture> picture;    // the campaign's picture, or one without errors
};

struct Report {
  std::string dir;
  CampaignHeader header;
  std::vector<Shard> shards;
  std::map<std::string, TargetStats> targets;        // over all shards
  std::map<std::string, MeasuredCoverage> coverage;  // of targets with enough cases
  std::vector<FindingEntry> findings;                // new ones first, then tolerated ones
  std::vector<Finding> never_again;
  std::vector<SeededBugResult> seeded_bugs;
  std::vector<WarningFile> warnings;                // statistical warnings
  size_t waiting = 0;                               // crashes not yet reduced
  std::map<std::string, uint64_t> corpus;           // kernel -> entries
  std::vector<CorpusEntry> newest;                  // the last few that showed something new
  std::vector<std::string> problems;                // files that cannot be read, and why
  std::vector<std::string> not_judged;              // targets, and why
  CampaignStatus status = CampaignStatus::kPassed;  // kUnknown if there are problems
  double explored = 0;                              // campaign time of the last case
  double end = 0;  // campaign time at the end of the last session, reductions included
};

// Throws std::runtime_error if there is no campaign in `dir`, or one that cannot be understood.
Report read_report(const std::string& dir);

// The most important numbers: cases, findings, waiting crashes, and whether the campaign runs.
Json summary_json(const Report& report);

// Everything. Each job's series has at most about 80 lines for each target. `made`: the time.
Json report_json(const Report& report, const std::string& made);

std::string report_page(const Json& report);

// A shard's newest sums.
const SeriesLine& last_of(const Shard& shard);

}  // namespace attnfuzz::report
