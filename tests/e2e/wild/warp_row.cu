// One query row a warp, half2 loads, shuffles. head dim 64 or 128.
#include <cuda_fp16.h>

namespace attn_warp {

constexpr unsigned kFull = 0xffffffffu;

template <typename T>
__inline__ __device__ T warpReduceSum(T val) {
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) val += __shfl_xor_sync(0xffffffff, val, mask, 32);
  return val;
}

template <int D, bool CAUSAL>
__global__ void __launch_bounds__(128) warp_per_row(const half* __restrict__ q, const half* __restrict__ k,
                                                    const half* __restrict__ v, half* __restrict__ o,
                                                    float* __restrict__ lse, int H, int Hkv, int Sq, int Sk,
                                                    float scale) {
  constexpr int PER = D / 64;  // half2 a lane
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int row = blockIdx.x * (blockDim.x >> 5) + warp;
  if (row >= Sq) return;
  const int h = blockIdx.y, b = blockIdx.z;
  const half2* q2 = reinterpret_cast<const half2*>(q + ((size_t)(b * H + h) * Sq + row) * D);
  const int kvh = h / (H / Hkv);
  const half2* k2 = reinterpret_cast<const half2*>(k + (size_t)(b * Hkv + kvh) * Sk * D);
  const half2* v2 = reinterpret_cast<const half2*>(v + (size_t)(b * Hkv + kvh) * Sk * D);

  float2 qf[PER], acc[PER];
#pragma unroll
  for (int i = 0; i < PER; ++i) {
    qf[i] = __half22float2(__ldg(&q2[lane + 32 * i]));
    acc[i] = make_float2(0.f, 0.f);
  }
  float m = -INFINITY, l = 0.f;
  const int end = CAUSAL ? min(Sk, row + 1) : Sk;
  for (int j = 0; j < end; ++j) {
    float s = 0.f;
#pragma unroll
    for (int i = 0; i < PER; ++i) {
      const float2 kf = __half22float2(k2[(size_t)j * (D / 2) + lane + 32 * i]);
      s += qf[i].x * kf.x + qf[i].y * kf.y;
    }
    s = warpReduceSum(s) * scale;
    const float m_new = fmaxf(m, s);
    const float alpha = __expf(m - m_new);
    const float p = __expf(s - m_new);
    l = l * alpha + p;
#pragma unroll
    for (int i = 0; i < PER; ++i) {
      const float2 vf = __half22float2(v2[(size_t)j * (D / 2) + lane + 32 * i]);
      acc[i].x = acc[i].x * alpha + p * vf.x;
      acc[i].y = acc[i].y * alpha + p * vf.y;
    }
    m = m_new;
  }
  half2* o2 = reinterpret_cast<half2*>(o + ((size_t)(b * H + h) * Sq + row) * D);
  const float inv = __frcp_rn(l);
#pragma unroll
  for (int i = 0; i < PER; ++i) o2[lane + 32 * i] = __floats2half2_rn(acc[i].x * inv, acc[i].y * inv);
  if (lane == 0) lse[(size_t)(b * H + h) * Sq + row] = m + __logf(l);
}

}  // namespace attn_warp

#define LAUNCH(DIM, C)                                                                                        \
  attn_warp::warp_per_row<DIM, C><<<dim3((Sq + 3) / 4, H, B), 128, 0, stream>>>(q, k, v, o, lse, H, Hkv, Sq, Sk, \
                                                                                 scale)

cudaError_t warp_attention(const half* q, const half* k, const half* v, half* o, float* lse, int B, int H, int Hkv,
                           int Sq, int Sk, int D, float scale, bool causal, cudaStream_t stream) {
  if (D == 64) {
    if (causal)
      LAUNCH(64, true);
    else
      LAUNCH(64, false);
  } else if (D == 128) {
    if (causal) LAUNCH(128, true);
    else LAUNCH(128, false);
  } else {
    return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}
