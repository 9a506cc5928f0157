// The walk on wgmma (sm_90a), as the kernel's plan() and run() see it.
#pragma once

#include "kernels/fa1_backward/walk_params.h"
#include "kernels/plug_in.h"

namespace attn::backward {

// True if this walk takes a problem that the walk on mma takes. Q, K, V and dO must be tensors that the
// copy engine can load, with at least one row.
bool groups_take(const Call& call);

// Launches prepare_rows, the walk and finish_dq.
attn_status launch_groups(const Call& call, const WalkParams& p);

}  // namespace attn::backward
