// Softmax of each row of a matrix, in plain CUDA: one block per row, partial results through shared memory.
// nvcc compiles this file, and clang compiles it for the CPU executor. Two things are written so that both
// accept them: the dynamic array and the launch.
#include <cuda_runtime.h>

#include "kernels/primitives/launch.h"
#include "kernels/primitives/shared.h"
#include "kernels/cuda_source/example/softmax.h"

namespace {

constexpr int kThreads = 128;

template <class Combine>
__device__ float reduce_block(float value, float neutral, Combine combine) {
  __shared__ float partial[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = neutral;
  for (int warp = 0; warp < kThreads / 32; ++warp) value = combine(value, partial[warp]);
  __syncthreads();  // `partial` is written again by the next reduction
  return value;
}

__global__ void softmax_kernel(const float* in, float* out, int columns) {
  ATTN_DYNAMIC_SHARED(float, row);
  const float* from = in + static_cast<size_t>(blockIdx.x) * columns;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) row[i] = from[i];

  float largest = -INFINITY;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) largest = fmaxf(largest, row[i]);
  largest = reduce_block(largest, -INFINITY, [](float a, float b) { return fmaxf(a, b); });

  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += row[i] = __expf(row[i] - largest);
  sum = reduce_block(sum, 0.0f, [](float a, float b) { return a + b; });

  float* to = out + static_cast<size_t>(blockIdx.x) * columns;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) to[i] = row[i] / sum;
}

}  // namespace

attn_status softmax(const attn_env* env, const float* in, float* out, int rows, int columns) {
  if (rows == 0 || columns == 0) return ATTN_OK;
  return attn::launch(softmax_kernel, dim3(rows), dim3(kThreads), columns * sizeof(float), env, in, out,
                      columns);
}
