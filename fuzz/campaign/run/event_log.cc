#include "fuzz/campaign/run/event_log.h"

#include "base/json.h"
#include "fuzz/campaign/store/archive_json.h"

namespace attnfuzz {

EventLog::EventLog(const std::string& dir, const SessionClock& clock, const OnEvent& event)
    : dir_(dir), clock_(clock), event_(event) {
  for (const Finding& f : read_findings(dir).findings) told_.insert(f.name);
}

void EventLog::say(const char* event, const Json& more) const {
  Json j = {{"event", event}, {"t", clock_.now()}};
  j.update(more);
  event_(json_text(j));
}

void EventLog::look_at_findings() {
  struct stat now = {};
  if (stat((dir_ + "/findings.json").c_str(), &now) != 0) return;
  // The file is replaced, never written in place.
  if (now.st_ino == file_.st_ino && now.st_mtim.tv_sec == file_.st_mtim.tv_sec &&
      now.st_mtim.tv_nsec == file_.st_mtim.tv_nsec)
    return;
  file_ = now;
  const FindingsFile all = read_findings(dir_);
  findings_ = tolerated_ = 0;
  for (const Finding& f : all.findings) {
    ++(f.tolerated.empty() ? findings_ : tolerated_);
    if (!told_.insert(f.name).second) continue;
    Json finding = f;
    finding["file"] = dir_ + "/findings/" + file_name_of(f);
    say("finding", finding);
  }
}

}  // namespace attnfuzz
