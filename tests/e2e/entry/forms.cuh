#pragma once

struct Rows {
  const half *q, *k, *v;
  half* o;
  int sq, sk, d;
  float scale;
};

static DEVICE float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
HOST_DEVICE int rounded_up(int n) { return (n + 31) / 32 * 32; }

template <class T, class F>
DEVICE T over_warp(T x, F f) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) x = f(x, __shfl_xor_sync(0xffffffffu, x, lane));
  return x;
}

// One query a warp, one key a lane, kWarps queries a block.
template <int kWarps, bool kCausal>
__global__ static void __launch_bounds__(32 * kWarps) attend(const __grid_constant__ Rows p) {
  __builtin_assume(p.sk > 0);
  alignas(16) __shared__ float weights[kWarps][32];
  const dim3 block = blockDim;
  const int2 place{threadIdx.x / warpSize, threadIdx.x % warpSize};  // narrows unsigned numbers
  const int warp = place.x, lane = place.y;
  const int row = blockIdx.x * (block.x / warpSize) + warp;
  if (row >= p.sq) return;
  const half* q = p.q + (size_t(blockIdx.y) * p.sq + row) * p.d;
  const half* k = p.k + size_t(blockIdx.y) * p.sk * p.d;
  const half* v = p.v + size_t(blockIdx.y) * p.sk * p.d;
  const int last = kCausal ? min(p.sk, row + 1) : p.sk;
  float top = -INFINITY, sum = 0, out[4] = {0};
  for (int tile = 0; tile < rounded_up(last); tile += 32) {
    const int key = tile + lane;
    float score = -INFINITY;
    if (key < last) {
      score = 0;
      for (int c = 0; c < p.d; ++c) score += __half2float(q[c]) * __half2float(k[size_t(key) * p.d + c]);
      score *= p.scale * 1.4426950408889634f;
    }
    const float before = top;
    top = fmaxf(top, over_warp(score, [](float a, float b) { return fmaxf(a, b); }));
    const float shift = top == -INFINITY ? 0.f : top, rescale = exp2_of(before - shift);
    weights[warp][lane] = exp2_of(score - shift);
    sum = sum * rescale + over_warp(weights[warp][lane], [](auto a, auto b) { return a + b; });
    __syncwarp();
    for (int c = lane, n = 0; c < p.d; c += 32, ++n) {
      out[n] *= rescale;
      for (int j = 0; j < min(32, last - tile); ++j)
        out[n] += weights[warp][j] * __half2float(v[size_t(tile + j) * p.d + c]);
    }
    __syncwarp();
  }
  half* o = p.o + (size_t(blockIdx.y) * p.sq + row) * p.d;
  for (int c = lane, n = 0; c < p.d; c += 32, ++n) o[c] = __float2half(out[n] / sum);
}
