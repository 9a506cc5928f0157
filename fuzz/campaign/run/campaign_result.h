// A campaign's progress reports, and its result.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/json_record.h"
#include "fuzz/campaign/store/archive.h"
#include "fuzz/campaign/store/campaign_status.h"

namespace attnfuzz {

// Receives events, for a terminal or a stream. Each is one JSON object with "event".
using OnEvent = std::function<void(const std::string& json)>;

struct CampaignState {
  double t = 0, left = 0;
  uint64_t cases = 0, sequences = 0;
  double cases_per_second = 0;
  uint64_t corpus = 0, situations = 0, coverage = 0, waiting = 0, restarts = 0;
  size_t findings = 0, tolerated = 0;
  bool disk_full = false, draining = false;
};
void fields(Is<CampaignState> auto& r, auto f) {
  f("t", r.t), f("left", r.left), f("cases", r.cases), f("sequences", r.sequences);
  f("cases_per_second", r.cases_per_second);
  f("corpus", r.corpus), f("signals", r.situations), f("coverage", r.coverage), f("waiting", r.waiting);
  f("restarts", r.restarts), f("findings", r.findings), f("tolerated", r.tolerated);
  f("disk_full", r.disk_full), f("draining", r.draining);
}
using OnState = std::function<void(const CampaignState& state)>;

struct CampaignSummary {
  CampaignHeader header;
  FindingsFile findings;
  std::vector<SeededBugResult> seeded_bugs;  // of this session
  size_t waiting = 0;                        // failures not yet reduced
  std::string ended;
  int signal = 0;                       // the signal that interrupted it
  bool harness_broken = false;          // a seeded bug was not found
  std::string unkept;                   // what could not be stored: for instance a damaged coverage file
  std::vector<std::string> not_judged;  // targets of which too little was judged, with the reason
  CampaignStatus status = CampaignStatus::kPassed;
};

}  // namespace attnfuzz
