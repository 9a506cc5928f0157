// From a case to a batch's call.
//
//   std::string why;
//   auto call = prepare(c, &why);              // nothing: `why` it is left to the ordinary way
//   ... the device plans it ...
//   if (add_plan(result.plan, calibration, &*call, &why)) ... the device runs it ...
//
// Laid out as LaidOut lays it out, byte for byte: a test holds the two together.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fuzz/batch/call.h"
#include "reference/model/assumption.h"
#include "reference/model/calibration.h"

namespace attnfuzz::batch {

// Of a legal case (case.h), for the device's back end.
std::optional<Call> prepare(const Case& c, int32_t backend, std::string* why);

// Gives a call the plan, the workspace that it wants and what its bound charges. False, with a reason: it
// is left to the ordinary way. *assumptions: as ErrorModel has them.
bool add_plan(const Case& c, const attn_plan& plan, const Calibration& calibration, Call* call,
              std::vector<Assumption>* assumptions, std::string* why);

}  // namespace attnfuzz::batch
