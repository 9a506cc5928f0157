// Prints a verdict, a reduction and the use of the oracles, for a person.
#pragma once

#include <string>
#include <vector>

#include "fuzz/check/check.h"
#include "properties/explain/fault_class.h"
#include "properties/judge/oracles.h"
#include "properties/judge/verdict.h"
#include "properties/reduce/reduce.h"
#include "properties/reduce/reproducer.h"

namespace attnfuzz {

// "FAIL (reference, non-finite): o(b=0,h=0,q=0,d=0) is nan, must be ..."
std::string verdict_sentence(const Verdict& verdict);

// The lines below the sentence: shape of the error, first wrong element, fault, plan, sampled rows.
std::vector<std::string> verdict_details(const Verdict& verdict);

// The sentence, the details and the assumptions, each on lines of its own.
std::string verdict_text(const Verdict& verdict);

// One line that lists what plan() leaves open and what is assumed instead; empty if nothing is.
// `assumptions`: those of ErrorModel.
std::string assumed_line(const std::vector<Assumption>& assumptions);

// The number of results that each oracle judged, for a kernel that is judged by the GPU oracle too.
std::string oracle_text(const OracleUse& use);

FaultGuess guess_of(const Reduction& reduction, Target& target, const Calibration& calibration);

// The minimal case, its verdict, what it needs, what does not matter, the likely fault.
std::string reduction_text(const Reduction& reduction, const FaultGuess& guess);

// Makes the reproducer of a case; `reduction`: null while the reduction still runs.
Reproducer reproducer_of(const Case& c, const Verdict& verdict, const Reduction* reduction, Target& target);

}  // namespace attnfuzz
