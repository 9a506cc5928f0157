// Converts a device's result of a call into a run that a trial can be given (GivenRuns).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fuzz/batch/device/call.h"
#include "properties/judge/trial.h"

namespace attnfuzz::batch {

// The call must have no error. `readback` is the whole batch's. If the call asked for no readback,
// the run has neither outputs nor a reference. If only a part was read back (Readback), the
// reference has bounds and no values. nullptr if the readback holds values that no oracle writes,
// because something overwrote it.
std::unique_ptr<GivenRun> given_run(const Case& c, const Call& call, const Result& result,
                                    std::vector<Assumption> assumptions, std::span<const std::byte> readback);

}  // namespace attnfuzz::batch
