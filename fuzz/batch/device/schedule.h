// The order in which a batch's calls are launched, and the slot of each. A batch ends with its slowest slot. So
// the calls that take longest come first, and each call gets the slot with the least work so far.
//
//   const Schedule schedule(calls, slots);
//   for (const size_t i : schedule.order) launch(calls[i], schedule.slot[i]);
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "fuzz/batch/device/call.h"

namespace attnfuzz::batch {

struct Schedule {
  // A call in place comes directly after the call before it, in the same slot.
  Schedule(std::span<const Call> calls, int slots);
  std::vector<size_t> order;  // of launching: indices of calls
  std::vector<int> slot;      // by call
};

}  // namespace attnfuzz::batch
