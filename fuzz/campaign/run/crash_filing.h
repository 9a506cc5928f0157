// Decides whether a slice files a failure, and begins the crash that it writes.
//
//   CrashFiling filing(slice);
//   if (filing.has_enough_of(verdict.site)) ...       // counted with the others of that place
//   if (auto* waiting = filing.place(verdict, false)) {
//     Crash crash = filing.crash(verdict, digest(c), index);
//     ...
//     write_crash(dir, crash, trace), ++*waiting;
//   }
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <string_view>

#include "fuzz/campaign/run/explore.h"
#include "fuzz/campaign/store/archive.h"

namespace attnfuzz {

class CrashFiling {
 public:
  explicit CrashFiling(const Slice& slice) : s_(slice) {}  // the slice must outlive this

  // True if this slice has filed so many failures of this place that the triage will count further ones there.
  bool has_enough_of(const std::string& site) const;
  // The count of waiting crashes of this kind, to be increased once the crash is written. Null if too many of
  // its kind wait (filing_limits.h). `of_sequences`: it is of a sequence of calls.
  std::atomic<int32_t>* place(const Verdict& verdict, bool of_sequences);
  // The crash without what failed. `digest`: of what failed; its first twelve digits are part of the crash's
  // name.
  Crash crash(const Verdict& verdict, std::string_view digest, uint64_t index) const;

 private:
  const Slice& s_;
  std::map<std::string, int> sites_;  // failures of this slice, by site
};

}  // namespace attnfuzz
