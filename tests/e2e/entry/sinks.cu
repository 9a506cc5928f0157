// Attention with sinks and ALiBi slopes, one thread a query. Both pointers may be null.
#include <cuda_runtime.h>

__global__ void attend(const float* q, const float* k, const float* v, float* o, const float* sink, const float* slopes,
                       int each, int heads, int s, int d, float scale) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, bh = blockIdx.y, h = bh % heads;
  if (i >= s) return;
  const float* row = q + (size_t(bh) * s + i) * d;
  float* out = o + (size_t(bh) * s + i) * d;
  const float slope = slopes ? slopes[bh / heads * each + h] : 0;
  float top = sink ? sink[h] : -INFINITY, sum = sink && sink[h] > -INFINITY ? 1 : 0;
  for (int c = 0; c < d; ++c) out[c] = 0;
  for (int j = 0; j < s; ++j) {
    float x = 0;
    for (int c = 0; c < d; ++c) x += row[c] * k[(size_t(bh) * s + j) * d + c];
    x = x * scale - slope * fabsf(float(i - j));
    const float now = fmaxf(top, x), w = expf(x - now), r = sum > 0 ? expf(top - now) : 0;
    sum = sum * r + w, top = now;
    for (int c = 0; c < d; ++c) out[c] = out[c] * r + w * v[(size_t(bh) * s + j) * d + c];
  }
  for (int c = 0; c < d; ++c) out[c] = sum > 0 ? out[c] / sum : 0;
}

void launch(const float* q, const float* k, const float* v, float* o, const float* sink, const float* slopes, int each, int b,
            int h, int s, int d, float scale) {
  attend<<<dim3((s + 31) / 32, b * h), 32>>>(q, k, v, o, sink, slopes, each, h, s, d, scale);
}
