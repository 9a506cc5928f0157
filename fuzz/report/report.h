// What is read over coffee: a campaign's folder as one HTML page that needs
// nothing else, neither a script nor another file nor the network.
//
//   1. read_report(dir)   all that the folder says (campaign/archive.h). What cannot
//                         be read is named in `problems`, and the rest is shown
//   2. picture_of(...)    each finding's case drawn; with its kernel at hand it is run
//                         again, so that the picture shows the error (optional)
//   3. report_html(...)   the page
//
//   Report report = read_report("night");        // throws: no campaign there
//   write_file("night.html", report_html(report));
//
// Everything from a file is escaped: a hostile folder makes an odd page, and no
// other harm.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/campaign/store/archive.h"
#include "fuzz/report/case_picture.h"
#include "properties/judge/target.h"
#include "properties/reduce/reproducer.h"
#include "reference/calibration.h"

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
  std::optional<CasePicture> picture;
};

struct Report {
  std::string dir;
  CampaignHeader header;
  std::vector<Shard> shards;
  std::map<std::string, TargetStats> targets;  // of all shards
  std::vector<FindingEntry> findings;          // new ones first, then tolerated ones
  std::vector<Finding> never_again;
  std::vector<Canary> canaries;
  size_t waiting = 0;                      // crashes not yet reduced
  std::map<std::string, uint64_t> corpus;  // kernel -> entries
  std::vector<CorpusEntry> newest;         // a few of the last that showed something new
  std::vector<std::string> problems;       // files that cannot be read, and why
  double explored = 0;                     // campaign time until the last case
  double end = 0;                          // and until the last failure was reduced
};

// Throws std::runtime_error if there is no campaign in `dir`, or one that cannot be understood.
Report read_report(const std::string& dir);

// A finding's case, run on its kernel; without a target, what can be drawn of the case alone.
CasePicture picture_of(const Reproducer& r, Target* target, const Calibration& calibration,
                       const std::string& why_not);

// The page, as XHTML that is HTML as well. `made`: when, for the foot of the page.
std::string report_html(const Report& report, const std::string& made);

}  // namespace attnfuzz::report
