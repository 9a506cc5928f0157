// The planted bugs of a session: which still have to run, and the result of each.
//
//   1. Canaries canaries(dir, targets, session);    // canary.json: none has run yet
//   2. while (auto target = canaries.next(gpu))     // a job explores it until it fails or its time is up
//        canaries.ran(*target, cases, seconds);
//      canaries.again(*target);                     // or: the job was killed, so there is no result
//   3. canaries.conclude("");                       // the triage has written who was found into the file
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
  // Takes the next target of that back end.
  std::optional<int> next(bool gpu);
  void again(int target) { queue_.push_back(target); }
  // The result of one job; several jobs of a target add up.
  void ran(int target, uint64_t cases, double seconds);

  // Adopts what the triage has found. `excuse` is added to the message of those that were not found.
  void conclude(const std::string& excuse);
  void write() const;
  std::vector<Canary> of_session() const;

 private:
  Canary* mine(const std::string& target);

  const std::string dir_;
  const std::vector<CampaignTarget>& targets_;
  const int session_;
  std::vector<Canary> all_;  // of earlier sessions, too
  std::vector<int> queue_;
};

}  // namespace attnfuzz
