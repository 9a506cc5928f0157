// The planted bugs of a session: which are still to be run, and what came of each.
//
//   1. Canaries canaries(dir, targets, session);   // canary.json says of each that it has not been run
//   2. while (auto target = canaries.next(gpu))    // a job explores it, until it fails or its time is up
//        canaries.ran(*target, cases, seconds);
//      canaries.again(*target);                    // or else: the job was killed, and that was no answer
//   3. canaries.conclude("");                        // who was found is in the file: the triage writes it there
//      for (const Canary& c : canaries.of_session()) ...
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fuzz/campaign/store/campaign_options.h"

namespace attnfuzz {

class Canaries {
 public:
  // Throws std::system_error if the folder cannot be written.
  Canaries(const std::string& dir, const std::vector<CampaignTarget>& targets, int session);

  bool due() const { return !queue_.empty(); }
  bool due(bool gpu) const;
  // Takes the number of the next target, of that back end.
  std::optional<int> next(bool gpu);
  void again(int target) { queue_.push_back(target); }
  // Of one job: more of them are added up.
  void ran(int target, uint64_t cases, double seconds);

  // Takes over what the triage has found. `excuse` is added to the message of those that were not found.
  void conclude(const std::string& excuse);
  void write() const;
  std::vector<Canary> of_session() const;

 private:
  Canary* mine(const std::string& target);

  const std::string dir_;
  const std::vector<CampaignTarget>& targets_;
  const int session_;
  std::vector<Canary> all_;  // of the sessions before, too
  std::vector<int> queue_;
};

}  // namespace attnfuzz
