// Measures how often a failing case fails again: three times in fresh processes. If it does not fail each
// time, it is run after the cases that preceded it, or up to ten times.
//
//   Repetition r = run_again(crash, *property, worker, calibration, folder + "/trace.jsonl");
//   // r.repeats: always; sometimes (r.failed of r.runs); only after other cases; never
#pragma once

#include <string>

#include "fuzz/campaign/store/archive.h"
#include "properties/judge/property.h"
#include "properties/judge/target.h"
#include "reference/model/calibration.h"

namespace attnfuzz {

struct Repetition {
  Repeats repeats = Repeats::kNever;
  int failed = 0, runs = 0;
  Verdict verdict;    // of the last failing run; if none failed, of a passing one
  std::string trace;  // the shortest end of the trace that makes it fail, if it needs one
};

// `trace_file`: the preceding cases, oldest first (journal.h); it may be missing.
Repetition run_again(const Crash& crash, const Property& property, Target& worker,
                     const Calibration& calibration, const std::string& trace_file);

}  // namespace attnfuzz
