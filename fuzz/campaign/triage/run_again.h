// Measures how often a failure occurs again. It is run three times, each in a fresh process. If it never fails
// there, it is run after those that preceded it. Otherwise, and if it does not fail after them either, it is
// run up to ten times. This is the rule for cases and for sequences of calls (sequence_crash.h).
//
//   Repetition r = run_again(crash, *property, worker, calibration, folder + "/trace.jsonl");
//   // r.repeats: always; sometimes (r.failed of r.runs); only after other cases; never
#pragma once

#include <functional>
#include <string>

#include "fuzz/campaign/store/archive.h"
#include "properties/judge/property.h"
#include "properties/judge/target/target.h"
#include "reference/model/calibration.h"

namespace attnfuzz {

inline constexpr int kFreshRuns = 3, kMoreFreshRuns = 10;

struct RunCount {
  Repeats repeats = Repeats::kNever;
  int failed = 0, runs = 0;  // in fresh processes
};

// Counts by the rule above. `fails`: runs it once in a fresh process. `fails_after`: runs it once after those
// that preceded it; false if there are none. One failure after them is enough, unless the crash was a kill.
RunCount count_runs(const Crash& crash, const std::function<bool()>& fails,
                    const std::function<bool()>& fails_after);

// True if the verdict of a run shows the failure again. A kill of a run proves nothing, because anyone may have
// killed it, unless the crash was a kill as well.
bool shows_again(const Crash& crash, const Verdict& verdict);

struct Repetition : RunCount {
  Verdict verdict;    // of the last failing run; if none failed, of a passing one
  std::string trace;  // an end of the trace that suffices to make it fail, if it needs one
};

// `trace_file`: the preceding cases, oldest first (journal.h); it may be missing.
Repetition run_again(const Crash& crash, const Property& property, Target& worker,
                     const Calibration& calibration, const std::string& trace_file);

}  // namespace attnfuzz
