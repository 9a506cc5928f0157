// A plug-in kernel with one fault for each tool of compute-sanitizer, run by a worker
// like any other. If a tool does not report its fault here, its silence about our
// kernels means nothing (cmake/run-bundle.sh, step sanitize).
#include <cuda_runtime.h>

#include "tests/fuzz/fakes/fake.h"

namespace {

__device__ float sink;

__global__ void reads_uninitialised(const float* memory) { sink = memory[threadIdx.x]; }

// Two warps use the same words without a barrier.
__global__ void races() {
  __shared__ float word[32];
  if (threadIdx.x < 32) word[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (threadIdx.x >= 32) sink = word[threadIdx.x - 32];
}

// Lanes wait at a warp's barrier whose mask does not name them. (synccheck does not
// report a block's barrier that some threads never reach: exited threads count as arrived.)
__global__ void diverges() {
  if (threadIdx.x < 16) __syncwarp(0xffff0000u);
  sink = threadIdx.x;
}

__global__ void reads_too_far(const float* memory, int at) { sink = memory[at]; }

attn_status run(const attn_problem*, const attn_tensors*, const attn_plan*, const attn_env* env) {
  const cudaStream_t stream = static_cast<cudaStream_t>(env->stream);
  float* memory = nullptr;
  if (cudaMalloc(&memory, 32 * sizeof(float)) != cudaSuccess) return ATTN_LAUNCH_FAILED;
  reads_uninitialised<<<1, 32, 0, stream>>>(memory);
  races<<<1, 64, 0, stream>>>();
  // The kernels below may stop the context, so the tools must report before that.
  if (cudaStreamSynchronize(stream) != cudaSuccess) return ATTN_FAULT;
  diverges<<<1, 32, 0, stream>>>();
  // This kernel is the last, because memcheck stops the context here.
  reads_too_far<<<1, 1, 0, stream>>>(memory, 40);
  return cudaStreamSynchronize(stream) == cudaSuccess ? ATTN_OK : ATTN_FAULT;
}

}  // namespace

extern "C" const attn_kernel* attn_kernel_at(uint32_t index) {
  static attn_kernel seeded_bug = fake::kernel("sanitizer-seeded-bug", fake::yes, run);
  seeded_bug.backend = ATTN_CUDA;
  return index == 0 ? &seeded_bug : nullptr;
}
