// Tiles of Q, K and V in shared memory: 32 queries by 32 keys, or by 64 keys if Sk >= 2,048 and D >= 128. bf16.
// entry: forward(q, k, v, o, lse, B, H, Hkv, Sq, Sk, D, scale, causal, stream)
// takes: format = Formats::kBf16; dim = one_of(64, 128, 256); group = at_most(64); causal = Causal::kEither; align = ATTN_BOTTOM_RIGHT; lse = Lse::kWritten; in_fp32 = true; tile = 32
#include <cuda_bf16.h>
#include <cuda_runtime.h>

using bf16 = __nv_bfloat16;
constexpr int kRows = 32, kThreads = 128, kQuad = 4;

struct Args {
  const bf16 *q, *k, *v;
  bf16* o;
  float* lse;
  int heads, kv_heads, sq, sk;
  float scale;
  bool causal;
};

template <int D>
__device__ void load(bf16* tile, const bf16* rows, int first, int count, int last) {
  for (int n = threadIdx.x * 8; n < count * D; n += kThreads * 8) {
    const int r = n / D, c = n % D;
    uint4 x = make_uint4(0, 0, 0, 0);
    if (first + r < last) x = *reinterpret_cast<const uint4*>(rows + size_t(first + r) * D + c);
    *reinterpret_cast<uint4*>(tile + n) = x;
  }
}

__device__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

template <int D, int N>
__global__ void __launch_bounds__(kThreads) tiles(Args a) {
  extern __shared__ __align__(16) unsigned char raw[];
  bf16* sQ = reinterpret_cast<bf16*>(raw);
  bf16* sK = sQ + kRows * D;
  bf16* sV = sK + N * D;
  float* sP = reinterpret_cast<float*>(sV + N * D);
  const int h = blockIdx.y, b = blockIdx.z, first = blockIdx.x * kRows;
  const int row = threadIdx.x / kQuad, part = threadIdx.x % kQuad;
  const int i = first + row;
  const size_t head = size_t(b) * a.heads + h, kv_head = size_t(b) * a.kv_heads + h / (a.heads / a.kv_heads);
  const bf16 *q = a.q + head * a.sq * D, *k = a.k + kv_head * a.sk * D, *v = a.v + kv_head * a.sk * D;
  load<D>(sQ, q, first, kRows, a.sq);
  const int diagonal = a.sk - a.sq;
  const int end = a.causal ? min(a.sk, first + kRows + diagonal) : a.sk;
  float top = -INFINITY, sum = 0, acc[D / kQuad] = {};
  for (int at = 0; at < end; at += N) {
    load<D>(sK, k, at, N, a.sk);
    load<D>(sV, v, at, N, a.sk);
    __syncthreads();
    const bool whole = at + N <= a.sk && (!a.causal || at + N - 1 <= first + diagonal);
    float s[N / kQuad], most = -INFINITY;
    for (int n = 0; n < N / kQuad; ++n) {
      const int j = at + n * kQuad + part;
      float x = 0;
      for (int c = 0; c < D; ++c)
        x += __bfloat162float(sQ[row * D + c]) * __bfloat162float(sK[(n * kQuad + part) * D + c]);
      x *= a.scale;
      if (!whole && (j >= a.sk || (a.causal && j > i + diagonal))) x = -INFINITY;
      s[n] = x;
      most = fmaxf(most, x);
    }
    const float now = fmaxf(top, quad_max(most));
    const float shift = now == -INFINITY ? 0.f : now;
    const float r = expf(top - shift);
    float part_sum = 0;
    for (int n = 0; n < N / kQuad; ++n) {
      const float p = expf(s[n] - shift);
      part_sum += p;
      sP[row * N + n * kQuad + part] = p;
    }
    sum = sum * r + quad_sum(part_sum);
    top = now;
    __syncthreads();
    for (int c = 0; c < D / kQuad; ++c) {
      float x = acc[c] * r;
      for (int n = 0; n < N; ++n) x += sP[row * N + n] * __bfloat162float(sV[n * D + c * kQuad + part]);
      acc[c] = x;
    }
    __syncthreads();
  }
  if (i >= a.sq) return;
  bf16* o = a.o + (head * a.sq + i) * D;
  for (int c = 0; c < D / kQuad; ++c) o[c * kQuad + part] = __float2bfloat16(sum == 0 ? 0.f : acc[c] / sum);
  if (part == 0 && a.lse) a.lse[head * a.sq + i] = sum == 0 ? -INFINITY : top + logf(sum);
}

template <int D, int N>
void launch(const Args& a, int batch, cudaStream_t stream) {
  const int bytes = (kRows + 2 * N) * D * int(sizeof(bf16)) + kRows * N * int(sizeof(float));
  cudaFuncSetAttribute(tiles<D, N>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  tiles<D, N><<<dim3((a.sq + kRows - 1) / kRows, a.heads, batch), kThreads, bytes, stream>>>(a);
}

void forward(const bf16* q, const bf16* k, const bf16* v, bf16* o, float* lse, int batch, int heads, int kv_heads, int sq,
             int sk, int dim, float scale, bool causal, cudaStream_t stream) {
  const Args a{q, k, v, o, lse, heads, kv_heads, sq, sk, scale, causal};
  if (dim == 64) {
    launch<64, 32>(a, batch, stream);
  } else if (dim == 128) {
    sk < 2048 ? launch<128, 32>(a, batch, stream) : launch<128, 64>(a, batch, stream);
  } else {
    sk < 2048 ? launch<256, 32>(a, batch, stream) : launch<256, 64>(a, batch, stream);
  }
}
