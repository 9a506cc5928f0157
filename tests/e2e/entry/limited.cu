// A typical function of a user: it declares nowhere what it takes. It throws unless the head dimension is 16 or 48,
// ends the process above 64 keys, and needs much shared memory at dimension 48. Above 32 keys its scale is wrong.
#include <cuda_runtime.h>

#include <cstdlib>
#include <stdexcept>

__global__ void attend(const float* q, const float* k, const float* v, float* o, int sq, int sk, int d, float scale) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, bh = blockIdx.y;
  if (i >= sq) return;
  const float* row = q + (size_t(bh) * sq + i) * d;
  float* out = o + (size_t(bh) * sq + i) * d;
  float top = -INFINITY, sum = 0;
  for (int c = 0; c < d; ++c) out[c] = 0;
  for (int j = 0; j < sk; ++j) {
    float x = 0;
    for (int c = 0; c < d; ++c) x += row[c] * k[(size_t(bh) * sk + j) * d + c];
    x *= scale;
    const float now = fmaxf(top, x), w = expf(x - now), r = expf(top - now);
    sum = sum * r + w, top = now;
    for (int c = 0; c < d; ++c) out[c] = out[c] * r + w * v[(size_t(bh) * sk + j) * d + c];
  }
  for (int c = 0; c < d; ++c) out[c] /= sum;
}

void launch(const float* q, const float* k, const float* v, float* o, int bh, int s, int d, float scale) {
  if (d != 16 && d != 48) throw std::invalid_argument("a head dimension of 16 or 48 alone");
  if (s > 64) exit(3);
  const int shared = d == 48 ? 120'000 : 0;
  cudaFuncSetAttribute(attend, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  attend<<<dim3((s + 31) / 32, bh), 32, shared>>>(q, k, v, o, s, s, d, s > 32 ? 2 * scale : scale);
}

void launch_nothing(const float*, const float*, const float*, float*, int, int, int) {}
