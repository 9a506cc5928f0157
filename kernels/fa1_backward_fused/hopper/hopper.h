// The walk on wgmma (sm_90a), as the kernel's plan and run see it. It takes what the walk on mma takes.
#pragma once

#include "kernels/fa1_backward/walk_params.h"
#include "kernels/plug_in.h"

namespace attn::backward {

// Shared memory of a block, for 64 or 128 columns.
size_t groups_shared(int64_t columns);

// Launches the walk, and what comes before and after it.
attn_status launch_groups(const Call& call, const WalkParams& p);

}  // namespace attn::backward
