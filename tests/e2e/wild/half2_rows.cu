// half2 arithmetic: Q is scaled in half2, V accumulated in fp32; four rows a warp.
#include <cuda_fp16.h>

#define FULL_MASK 0xffffffff
#define HALF2(x) (reinterpret_cast<const half2*>(&(x))[0])

static __global__ void attention_half2(const half* q, const half* k, const half* v, half* out, const int n, const int d,
                                       const float scale) {
  const int row = blockIdx.x * blockDim.y + threadIdx.y;
  const int lane = threadIdx.x;  // 8 lanes a row
  const unsigned mask = 0xffu << (threadIdx.y % 4 * 8);
  if (row >= n) return;
  const size_t base = (size_t)blockIdx.y * n * d;
  const half2 scale2 = __float2half2_rn(scale);

  float m = -INFINITY, l = 0.f;
  float2 acc[16];
  const int pairs = d / 16;  // half2 values of each lane
  for (int i = 0; i < pairs; ++i) acc[i] = make_float2(0.f, 0.f);
  for (int j = 0; j < n; ++j) {
    float s = 0.f;
    for (int i = 0; i < pairs; ++i) {
      const int c = (i * 8 + lane) * 2;
      const half2 a = __hmul2(HALF2(q[base + (size_t)row * d + c]), scale2);
      const half2 b = HALF2(k[base + (size_t)j * d + c]);
      s = fmaf(__low2float(a), __low2float(b), s);
      s = fmaf(__high2float(a), __high2float(b), s);
    }
    for (int offset = 4; offset > 0; offset >>= 1) s += __shfl_xor_sync(mask, s, offset, 8);
    if (s > m) {
      const float c = __expf(m - s);
      l *= c;
      for (int i = 0; i < pairs; ++i) { acc[i].x *= c; acc[i].y *= c; }
      m = s;
    }
    const float p = __expf(s - m);
    l += p;
    for (int i = 0; i < pairs; ++i) {
      const float2 x = __half22float2(HALF2(v[base + (size_t)j * d + (i * 8 + lane) * 2]));
      acc[i].x += p * x.x;
      acc[i].y += p * x.y;
    }
  }
  for (int i = 0; i < pairs; ++i) {
    *reinterpret_cast<half2*>(&out[base + (size_t)row * d + (i * 8 + lane) * 2]) =
        __float22half2_rn(make_float2(acc[i].x / l, acc[i].y / l));
  }
}

void half2_attention(half* q, half* k, half* v, half* out, int bh, int n, int d, float scale) {
  dim3 block(8, 8), grid((n + block.y - 1) / block.y, bh);
  attention_half2<<<grid, block>>>(q, k, v, out, n, d, scale);
}
