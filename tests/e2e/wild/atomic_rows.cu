// Keys in parallel, output accumulated with atomics: three launches over fp32.
#include <cuda_runtime.h>

// fp32 max by its bits: right for negative numbers too
__device__ __forceinline__ void atomicMaxFloat(float* address, float value) {
  int* as_int = (int*)address;
  int old = atomicOr(as_int, 0), assumed;
  do {
    assumed = old;
    if (__int_as_float(assumed) >= value) break;
    old = atomicCAS(as_int, assumed, __float_as_int(value));
  } while (assumed != old);
}

__device__ float score(const float* q, const float* k, int D, float scale) {
  float s = 0;
  for (int d = 0; d < D; d++) s += q[d] * k[d];
  return s * scale;
}

__global__ void init(float* mx, float* sum, float* out, int rows, int D) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  mx[r] = -1e30f;
  sum[r] = 0;
  for (int d = 0; d < D; d++) out[r * D + d] = 0;
}

__global__ void row_max(const float* q, const float* k, float* mx, int Sq, int Sk, int D, float scale) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, bh = blockIdx.y;
  if (j >= Sk) return;
  for (int i = 0; i < Sq; i++)
    atomicMaxFloat(&mx[bh * Sq + i], score(q + (bh * Sq + i) * D, k + (bh * Sk + j) * D, D, scale));
}

__global__ void accumulate(const float* q, const float* k, const float* v, const float* mx, float* sum, float* out,
                           int Sq, int Sk, int D, float scale) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, bh = blockIdx.y;
  if (j >= Sk) return;
  for (int i = 0; i < Sq; i++) {
    int r = bh * Sq + i;
    float p = expf(score(q + r * D, k + (bh * Sk + j) * D, D, scale) - mx[r]);
    atomicAdd(&sum[r], p);
    for (int d = 0; d < D; d++) atomicAdd(out + r * D + d, p * v[(bh * Sk + j) * D + d]);
  }
}

__global__ void normalise(const float* sum, float* out, int n, int D) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] /= sum[i / D];
}

void attention(const float* q, const float* k, const float* v, float* out, int BH, int Sq, int Sk, int D) {
  float *mx, *sum;
  int rows = BH * Sq;
  cudaMalloc(&mx, rows * sizeof(float));
  cudaMalloc(&sum, rows * sizeof(float));
  float scale = rsqrtf((float)D);
  dim3 grid((Sk + 31) / 32, BH);
  init<<<(rows + 63) / 64, 64>>>(mx, sum, out, rows, D);
  row_max<<<grid, 32>>>(q, k, mx, Sq, Sk, D, scale);
  accumulate<<<grid, 32>>>(q, k, v, mx, sum, out, Sq, Sk, D, scale);
  normalise<<<(rows * D + 127) / 128, 128>>>(sum, out, rows * D, D);
  cudaDeviceSynchronize();
  cudaFree(mx);
  cudaFree(sum);
}
