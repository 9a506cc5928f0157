// The walk on wgmma (sm_90a), as the kernel's plan() and run() see it. It takes the same problems as the walk
// on mma.
#pragma once

#include "kernels/fa1_backward/walk_params.h"
#include "kernels/plug_in.h"

namespace attn::backward {

// Bytes of shared memory of a block, for 64 or 128 columns.
size_t groups_shared(int64_t columns);

// Launches prepare_rows, the walk and finish_dq.
attn_status launch_groups(const Call& call, const WalkParams& p);

}  // namespace attn::backward
