// Slots of shared memory that are filled by one thread, read by others, and then filled again, in a fixed
// cycle.
#pragma once

#include <cstdint>

#include "kernels/primitives/platform.h"

namespace attn {

// A thread's position on a ring of slots. `phase` is the parity of the thread's round.
template <int kSlots>
struct Ring {
  int slot = 0;
  uint32_t phase = 0;

  __device__ __forceinline__ Ring next() const {
    return slot + 1 == kSlots ? Ring{0, phase ^ 1} : Ring{slot + 1, phase};
  }
};

}  // namespace attn
