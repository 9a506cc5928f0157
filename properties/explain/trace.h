// Finds out where wrong values come from.
//
// The case is run again with a V in which every element identifies its place. The wrong results are
// compared with two kinds of explanation: single values, which are looked up; and other readings of the
// problem ("the diagonal were top-left", "head h read KV head h mod 2"), for which double precision
// computes O. A reading is reported only if it explains every wrong row that is tried.
//
//   for (const std::string& line : trace_values(c, target, calibration).lines) puts(line.c_str());
//     -> "o(b=0,h=1,q=0,d=0) holds v(b=0,head=1,key=0,d=0), of a key that it does not see"
//     -> "wrong rows are what they would be if query head h read KV head h mod 2"
#pragma once

#include <string>
#include <vector>

#include "properties/case/case.h"
#include "properties/explain/fault_class.h"
#include "properties/judge/target/target.h"
#include "reference/model/calibration.h"

namespace attnfuzz {

struct Trace {
  std::vector<std::string> lines;
  FaultClass fault = FaultClass::kUnknown;  // the class of the reading that explains everything
  // That reading ("the diagonal were top-left"), and others of its class that explain everything, too. Empty:
  // none does.
  std::vector<std::string> readings = {};
};

// Empty if nothing is known: the case is refused or dies, is right with such a V, or fits no explanation. If
// the scores of the problem cannot be computed, the only line says why.
Trace trace_values(const Case& c, Target& target, const Calibration& calibration);

}  // namespace attnfuzz
