// Places the inputs, the results and the scratch of the oracle for one call in one block of device memory.
//
//   OracleMemory of;
//   const uint64_t bytes = place_oracle(call, nullptr, blocks, shared_limit, &of);  // the bytes that it needs
//   place_oracle(call, base, blocks, shared_limit, &of);                            // pointers into them
//   lay_out(call, of.gradients.work, &env) ...
#pragma once

#include <cstddef>

#include "fuzz/batch/device/gradients.h"

namespace attnfuzz::batch {

struct OracleMemory {
  GradientWork gradients;  // other calls use only its `work`
  cuda::RowsScratch rows;
  cuda::GradientsScratch pairs;
  // Results lie in the order of Readback from here on: of `work.output`, or of `gradients.due`.
  std::byte* results;
};

// Sets the members that hold pointers and sizes. `blocks`, `shared_limit`: as in divide_rows(). Returns the
// bytes.
uint64_t place_oracle(const Call& call, std::byte* base, int blocks, int64_t shared_limit, OracleMemory* to);

}  // namespace attnfuzz::batch
