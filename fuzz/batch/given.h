// From what a device said of a call to what a trial is given of it (GivenRuns).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fuzz/batch/call.h"
#include "properties/judge/trial.h"

namespace attnfuzz::batch {

// Of a call in which nothing is wrong. `readback`: of the batch; where the call asked for no readback, the
// run has neither outputs nor a reference; where not all is read back, the reference has no values (Readback).
// nullptr: it says what no oracle does, so something wrote over it.
std::unique_ptr<GivenRun> given_run(const Case& c, const Call& call, const Result& result,
                                    std::vector<Assumption> assumptions, std::span<const std::byte> readback);

}  // namespace attnfuzz::batch
