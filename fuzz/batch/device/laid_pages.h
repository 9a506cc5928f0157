// The pages of a call, as the kernels of a batch read them. A call has no room for its block table. The code that
// launches kernels makes the table from the call's recipe, once for each call, and copies it to the device.
//
//   const LaidPages pages(call);                    // of a call with keys in pages
//   work.table = ...pages.table;  work.held = ...pages.held;   // on the device (kernels.h)
#pragma once

#include <cstdint>
#include <vector>

#include "fuzz/batch/device/call.h"

namespace attnfuzz::batch {

struct LaidPages {
  std::vector<int64_t> table;  // batch rows of pages_per_seq entries, as the kernel under test finds them
  std::vector<int32_t> held;   // by page: the slots, from the first on, that hold a key
  explicit LaidPages(const Call& call);
};

}  // namespace attnfuzz::batch
