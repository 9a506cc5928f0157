// Reports a campaign's progress as events, each one JSON object, and each finding once.
//
//   EventLog events(dir, clock, on_event);
//   events.say("restart", {{"shard", 3}, {"why", "SIGKILL"}});
//   events.look_at_findings();   // "finding", for new ones
#pragma once

#include <sys/stat.h>

#include <set>
#include <string>

#include "fuzz/campaign/run/campaign_result.h"
#include "fuzz/campaign/store/jobs/session_clock.h"

namespace attnfuzz {

class EventLog {
 public:
  // Findings that are already in the folder are not reported. The arguments must outlive this.
  EventLog(const std::string& dir, const SessionClock& clock, const OnEvent& event);
  void say(const char* event, const Json& more) const;
  // Cheap if there are no new findings.
  void look_at_findings();
  size_t findings() const { return findings_; }    // new findings
  size_t tolerated() const { return tolerated_; }  // findings that the ledger knows

 private:
  const std::string dir_;
  const SessionClock& clock_;
  const OnEvent& event_;
  struct stat file_ = {};  // findings.json when it was last read
  std::set<std::string> told_;
  size_t findings_ = 0, tolerated_ = 0;
};

}  // namespace attnfuzz
