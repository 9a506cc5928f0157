// The seeded bugs of a session: which still have to run, and the result of each.
//
//   1. SeededBugs seeded_bugs(dir, targets, session);  // canary.json: none has run yet
//   2. while (auto target = seeded_bugs.next(gpu))     // a job explores it until it fails or its time is up
//        seeded_bugs.ran(*target, cases, seconds, to_the_end);
//      seeded_bugs.again(*target);                     // or: the job was killed, so there is no result
//   3. seeded_bugs.conclude("", false);                // the triage has filled the file
//      for (const SeededBugResult& c : seeded_bugs.of_session()) ...
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fuzz/campaign/store/campaign_options.h"

namespace attnfuzz {

class SeededBugs {
 public:
  // Throws std::system_error if the folder cannot be written.
  SeededBugs(const std::string& dir, const std::vector<CampaignTarget>& targets, int session);

  bool due() const { return !queue_.empty(); }
  bool due(bool gpu) const;
  // Takes the next target, on a GPU or on the CPU.
  std::optional<int> next(bool gpu);
  void again(int target) { queue_.push_back(target); }
  // The result of one job; several jobs of a target add up. `to_the_end`: nothing ended it before its time.
  void ran(int target, uint64_t cases, double seconds, bool to_the_end);

  // Adopts what the triage has found. `excuse` is added to the message of those that were not found. If a
  // signal ended the session (`interrupted`), those that no job looked for to the end are cut short, and so are
  // those whose failure the triage has not examined.
  void conclude(const std::string& excuse, bool interrupted);
  void write() const;
  std::vector<SeededBugResult> of_session() const;

 private:
  SeededBugResult* mine(const std::string& target);

  const std::string dir_;
  const std::vector<CampaignTarget>& targets_;
  const int session_;
  std::vector<SeededBugResult> all_;  // of earlier sessions, too
  std::vector<int> queue_;
  std::set<std::string> ended_;  // targets of which a job ran to the end in this session
};

}  // namespace attnfuzz
