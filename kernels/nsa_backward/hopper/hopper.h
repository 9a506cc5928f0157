// dK and dV on wgmma (sm_90a), as the kernel's plan() and run() see it.
#pragma once

#include "kernels/nsa_backward/mma_params.h"
#include "kernels/plug_in.h"

namespace attn::nsa {

// The kernel for a problem, and bytes of shared memory of a block.
struct KeyGroups {
  size_t bytes;
  void (*kernel)(MmaParams);
};
KeyGroups key_groups(const attn_problem& p);

}  // namespace attn::nsa
