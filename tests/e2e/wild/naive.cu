// naive attention: one block per (query, head, batch), three passes over global memory
#include <cuda_runtime.h>
#include <float.h>
#include <stdio.h>

#define CUDA_CHECK(call)                                                                 \
  do {                                                                                   \
    cudaError_t err_ = (call);                                                           \
    if (err_ != cudaSuccess)                                                             \
      fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(err_));       \
  } while (0)

__global__ void qk_kernel(const float* q, const float* k, float* scores, int S, int D, float scale) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  int i = blockIdx.y;
  int bh = blockIdx.z;
  if (j >= S) return;
  float acc = 0.f;
  for (int d = 0; d < D; d++) acc += q[(bh * S + i) * D + d] * k[(bh * S + j) * D + d];
  scores[((size_t)bh * S + i) * S + j] = acc * scale;
}

__global__ void softmax_kernel(float* scores, int S) {
  float* row = scores + (size_t)blockIdx.x * S;
  __shared__ float s_max, s_sum;
  if (threadIdx.x == 0) {
    float m = -FLT_MAX;
    for (int j = 0; j < S; j++) m = fmaxf(m, row[j]);
    float l = 0.f;
    for (int j = 0; j < S; j++) l += expf(row[j] - m);
    s_max = m;
    s_sum = l;
  }
  __syncthreads();
  for (int j = threadIdx.x; j < S; j += blockDim.x) row[j] = expf(row[j] - s_max) / s_sum;
}

__global__ void pv_kernel(const float* p, const float* v, float* o, int S, int D) {
  int d = threadIdx.x;
  int i = blockIdx.x;
  int bh = blockIdx.y;
  if (d >= D) return;
  float acc = 0.f;
  for (int j = 0; j < S; j++) acc += p[((size_t)bh * S + i) * S + j] * v[(bh * S + j) * D + d];
  o[(bh * S + i) * D + d] = acc;
}

void attention_forward(float* q, float* k, float* v, float* out, int B, int H, int S, int D) {
  float* scores;
  CUDA_CHECK(cudaMalloc(&scores, sizeof(float) * B * H * S * S));
  dim3 block(64);
  dim3 grid((S + block.x - 1) / block.x, S, B * H);
  qk_kernel<<<grid, block>>>(q, k, scores, S, D, 1.0f / sqrtf((float)D));
  softmax_kernel<<<B * H * S, 32>>>(scores, S);
  pv_kernel<<<dim3(S, B * H), (D + 31) / 32 * 32>>>(scores, v, out, S, D);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaDeviceSynchronize());
  CUDA_CHECK(cudaFree(scores));
}
