// What is read over coffee: a campaign's folder as one JSON object, and as one HTML
// page that draws it and loads nothing else.
//
//   1. read_report(dir)   all that the folder says (campaign/store/archive.h). What
//                         cannot be read is named in `problems`, and the rest is shown.
//                         Nothing is run: findings have their pictures with them
//   2. report_json(...)   the same for programs: report.json, and `attnfuzz status --json`
//   3. report_page(...)   page.html with that JSON in it
//
//   Report report = read_report("night");        // throws: no campaign there
//   const auto json = report_json(report, utc_now());
//   write_file("night/report.json", json_text(json, 1));
//   write_file("night/report.html", report_page(json));
//
// The page puts every text of a file into place as text, and its policy lets no other
// script run: a hostile folder makes an odd page, and no other harm.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/campaign/store/archive.h"
#include "fuzz/campaign/store/coverage_file.h"
#include "fuzz/campaign/store/standing.h"
#include "fuzz/campaign/store/suspects.h"
#include "fuzz/campaign/triage/case_picture.h"
#include "properties/reduce/reproducer.h"
#include "base/json.h"

namespace attnfuzz::report {

struct Shard {
  int number = 0;
  std::vector<SeriesLine> series;
  ShardStats stats;
};

struct FindingEntry {
  Finding finding;
  std::string file;       // of its reproducer, as a replay line takes it
  std::string file_text;  // what is in it
  std::optional<Reproducer> reproducer;
  std::optional<CasePicture> picture;  // as it was taken; else of the case alone
};

struct Report {
  std::string dir;
  CampaignHeader header;
  std::vector<Shard> shards;
  std::map<std::string, TargetStats> targets;        // of all shards
  std::map<std::string, MeasuredCoverage> coverage;  // of targets with enough cases
  std::vector<FindingEntry> findings;                // new ones first, then tolerated ones
  std::vector<Finding> never_again;
  std::vector<Canary> canaries;
  std::vector<SuspectFile> suspects;       // no findings
  size_t waiting = 0;                      // crashes not yet reduced
  std::map<std::string, uint64_t> corpus;  // kernel -> entries
  std::vector<CorpusEntry> newest;         // a few of the last that showed something new
  std::vector<std::string> problems;       // files that cannot be read, and why
  std::vector<std::string> not_judged;     // targets, and why
  Standing standing = Standing::kHeld;     // kUnknown if there are problems
  double explored = 0;                     // campaign time until the last case
  double end = 0;                          // and until the last failure was reduced
};

// Throws std::runtime_error if there is no campaign in `dir`, or one that cannot be understood.
Report read_report(const std::string& dir);

// What a person asks first, in numbers: cases, findings, what waits, whether it runs.
Json summary_json(const Report& report);

// All of it. Of each job's series at most some 80 lines a target. `made`: when.
Json report_json(const Report& report, const std::string& made);

std::string report_page(const Json& report);

// The newest sums of a shard.
const SeriesLine& last_of(const Shard& shard);

}  // namespace attnfuzz::report
