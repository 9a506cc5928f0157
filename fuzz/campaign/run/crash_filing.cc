#include "fuzz/campaign/run/crash_filing.h"

#include "fuzz/campaign/run/filing_limits.h"

namespace attnfuzz {

bool CrashFiling::has_enough_of(const std::string& site) const {
  const auto filed = sites_.find(site);
  return filed != sites_.end() && filed->second >= kMostOfOneSite;
}

std::atomic<int32_t>* CrashFiling::place(const Verdict& verdict, bool of_sequences) {
  auto& waiting = s_.shared.waiting[s_.target_number][*waiting_kind(to_string(verdict.kind), of_sequences)];
  if (waiting >= kMostWaiting) return nullptr;
  if (!verdict.site.empty()) ++sites_[verdict.site];
  return &waiting;
}

Crash CrashFiling::crash(const Verdict& verdict, std::string_view digest, uint64_t index) const {
  Crash crash;
  crash.target = s_.target.record.name;
  crash.id = std::string(digest.substr(0, 12)) + "-" + crash.target;
  crash.property = verdict.property;
  crash.kind = to_string(verdict.kind);
  crash.message = verdict.message;
  crash.site = verdict.site;
  crash.exit_reason = verdict.exit_reason;
  crash.t = s_.clock.now();
  crash.shard = s_.shard;
  crash.index = index;
  return crash;
}

}  // namespace attnfuzz
