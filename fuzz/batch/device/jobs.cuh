// The jobs of the kernels that lay out and judge a call: a job for each tensor, and more.
#pragma once

#include "fuzz/batch/device/kernels.h"
#include "fuzz/batch/device/units.cuh"
#include "kernels/primitives/launch.h"

namespace attnfuzz::batch {

// The first jobs are the tensors of the forward pass and of merges.
inline constexpr unsigned kTensorJobs = kDout + (kDq - kOutput);
ATTN_BOTH inline int tensor_of(unsigned job) {
  const int t = static_cast<int>(job);
  return t < kDout ? t : t - kDout + kOutput;
}
inline constexpr unsigned kWorkspaceJob = kTensorJobs;  // other jobs follow, in each kernel its own

// The units of all inputs but Q, K and V.
struct UnitOf {
  const Work& work;
  __device__ uint16_t operator()(int t, const uint32_t (&n)[4], uint32_t within) const {
    return input_unit(work, t, n, within);
  }
};

// Launches a kernel for those of the first `all` jobs that the call has.
template <class Has>
attn_status launch_jobs(void (*kernel)(const Work), const Call& call, Work work, const attn_env* env,
                        unsigned all, const Has& has) {
  unsigned count = 0;
  for (unsigned job = 0; job < all; ++job)
    if (has(job)) work.jobs[count++] = static_cast<uint8_t>(job);
  return attn::launch(kernel, dim3(blocks_for(call), count), dim3(kThreads), 0, env, work);
}

}  // namespace attnfuzz::batch
