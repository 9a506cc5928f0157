// A separate module, opened as a worker opens one, with a kernel that may write past its static shared memory.
#include "kernels/primitives/launch.h"
#include "kernels/cuda_source/cuda/api.h"

namespace {

__global__ void overrun(float* out, int at) {
  __shared__ float tile[64];
  tile[threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x == 0) *(tile + at) = 2;
  __syncthreads();
  out[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

}  // namespace

extern "C" ATTN_EXPORT attn_status run_static_overrun(const attn_env* env, float* out, int at);
extern "C" attn_status run_static_overrun(const attn_env* env, float* out, int at) {
  return attn::launch(overrun, dim3(1), dim3(64), 0, env, out, at);
}
