// The counter of items taken, set to 0 right ahead of the kernel that counts with it: a workspace
// may hold anything, and the kernel before may still use it. Whoever waits for this one has waited for that.
#pragma once

#include "kernels/primitives/dependent.h"

namespace attn {

static __global__ void fa1_hopper_reset(uint32_t* taken) {
  grid_dependents_start();
  grid_dependency_wait();
  if (threadIdx.x == 0) *taken = 0;
}

}  // namespace attn
