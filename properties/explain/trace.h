// Where wrong values come from.
//
// The case is run again with a V in which every element tells its place, and
// what comes out wrong is held against two kinds of explanation: single values,
// which are looked up; and whole readings of the problem ("the diagonal were
// top-left", "head h read KV head h mod 2"), for each of which double precision
// says what O would be. Only a reading that explains every wrong row is named.
//
//   for (const std::string& line : trace_values(c, target, calibration).lines) puts(line.c_str());
//     -> "o(b=0,h=1,q=0,d=0) holds v(b=0,head=1,key=0,d=0), which is not among its keys"
//     -> "wrong rows are what they would be if query head h read KV head h mod 2"
#pragma once

#include <string>
#include <vector>

#include "properties/case/case.h"
#include "properties/explain/fault_class.h"
#include "properties/judge/target.h"
#include "reference/model/calibration.h"

namespace attnfuzz {

struct Trace {
  std::vector<std::string> lines;
  FaultClass fault = FaultClass::kUnknown;  // what the reading that explains it all would be
  // That reading, "the diagonal were top-left", and others of its class that explain it too; empty: none does.
  std::vector<std::string> readings = {};
};

// Empty where nothing is known: the case is refused or dies, is right with such
// a V, or no explanation fits.
Trace trace_values(const Case& c, Target& target, const Calibration& calibration);

}  // namespace attnfuzz
