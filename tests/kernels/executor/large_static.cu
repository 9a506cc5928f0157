// A separate module with a kernel that nvcc refuses: it has 64 KiB of static shared memory.
#include "kernels/primitives/launch.h"
#include "kernels/cuda_source/cuda/api.h"

namespace {

__global__ void large(float* out) {
  __shared__ float tile[16384];
  tile[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

}  // namespace

ATTN_EXPORT attn_status run_large_static(const attn_env* env, float* out);
attn_status run_large_static(const attn_env* env, float* out) {
  return attn::launch(large, dim3(1), dim3(64), 0, env, out);
}
