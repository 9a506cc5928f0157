// Measures how often a failing case fails again. It is run three times, each in a fresh process. If it never
// fails there, it is run after the cases that preceded it. Otherwise, and if it does not fail after them
// either, it is run up to ten times.
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
  std::string trace;  // an end of the trace that suffices to make it fail, if it needs one
};

// `trace_file`: the preceding cases, oldest first (journal.h); it may be missing.
Repetition run_again(const Crash& crash, const Property& property, Target& worker,
                     const Calibration& calibration, const std::string& trace_file);

}  // namespace attnfuzz
