// Finds the cases that must run before a case fails that passes by itself.
//
// A job judges its cases one after the other in one worker. A case that fails there and is right in
// a fresh worker may depend on what an earlier one left behind: a cache, a plan, a counter. The
// cases before it are run again in one worker, twice as many each time, until it fails again. Then
// all cases that are not needed are left out.
//
//   const auto before = earlier_cases(failure, target, calibration, options, 10);
//   if (before) ...   // these and then the failure, in one worker: attnfuzz replay A B FAILURE
#pragma once

#include <optional>
#include <vector>

#include "fuzz/check/check.h"

namespace attnfuzz {

struct Earlier {
  uint64_t index;
  Case c;  // as it was judged
  const Property* property;
};

// The needed cases, in the order in which they ran. Nothing if the case did not fail again after
// kMostEarlier of them, or within `seconds`. options.config must be the check's own. Leaves the
// worker fresh. The result has more than kFewEarlier cases only if neither fewer cases nor repeated
// calls of the failing case make it fail in time.
inline constexpr uint64_t kMostEarlier = 512;
inline constexpr size_t kFewEarlier = 8;
std::optional<std::vector<Earlier>> earlier_cases(const Failure& failure, Target& target,
                                                  const Calibration& calibration, const CheckOptions& options,
                                                  double seconds);

}  // namespace attnfuzz
