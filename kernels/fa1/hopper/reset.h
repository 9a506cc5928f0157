// The counter of items taken, set to 0 right ahead of the kernel that counts with it: a workspace
// may hold anything. That kernel is launched as a dependent, and its first items need no counter.
#pragma once

#include "kernels/primitives/dependent.h"

namespace attn {

static __global__ void fa1_hopper_reset(uint32_t* taken) {
  grid_dependents_start();
  if (threadIdx.x == 0) *taken = 0;
}

}  // namespace attn
