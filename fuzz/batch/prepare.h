// Turns a case into a batch's call.
//
//   std::string why;
//   auto call = prepare(c, &why);              // nothing: `why` a batch cannot judge it
//   ... the device plans it ...
//   if (add_plan(result.plan, calibration, &*call, &why)) ... the device runs it ...
//
// The call's memory layout is byte for byte that of LaidOut. A test compares the two.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fuzz/batch/device/call.h"
#include "reference/model/assumption.h"
#include "reference/model/calibration.h"

namespace attnfuzz::batch {

// Refuses illegal cases (case.h) too. `backend`: the device's.
std::optional<Call> prepare(const Case& c, int32_t backend, std::string* why);

// Adds the plan to the call, with the workspace that the plan wants and the errors that the bound charges. Returns
// false, with a reason, if the case must be judged the ordinary way. Sets *assumptions to ErrorModel's.
bool add_plan(const Case& c, const attn_plan& plan, const Calibration& calibration, Call* call,
              std::vector<Assumption>* assumptions, std::string* why);

}  // namespace attnfuzz::batch
