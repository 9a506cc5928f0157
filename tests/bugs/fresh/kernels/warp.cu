// One warp a query row. From 1,024 keys on, four warps share a row and merge their parts. fp16, grouped heads.
// entry: attend(q, k, v, o, lse, B, H, Hkv, Sq, Sk, D, scale, causal, stream)
// takes: dim = one_of(32, 64, 96, 128, 192, 256); group = at_most(64); causal = Causal::kEither; align = ATTN_BOTTOM_RIGHT; lse = Lse::kWritten; in_fp32 = true; tile = 32
#include <cuda_fp16.h>
#include <cuda_runtime.h>

struct Row {
  const half *q, *k, *v;
  half* o;
  float* lse;
  int end;  // one past the last key that the row sees
};

struct Args {
  const half *q, *k, *v;
  half* o;
  float* lse;
  int heads, kv_heads, sq, sk, dim;
  float scale;
  bool causal;
};

__device__ Row row_of(const Args& a, int i, int h, int b) {
  const int kvh = h / (a.heads / a.kv_heads);
  const size_t row = (size_t(b) * a.heads + h) * a.sq + i;
  const size_t keys = (size_t(b) * a.kv_heads + kvh) * a.sk;
  const int diagonal = i + a.sk - a.sq;
  const int end = a.causal ? min(a.sk, max(0, diagonal + 1)) : a.sk;
  return {a.q + row * a.dim, a.k + keys * a.dim, a.v + keys * a.dim, a.o + row * a.dim, a.lse + row, end};
}

__device__ float warp_max(float x) {
  for (int m = 16; m; m >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, m));
  return x;
}
__device__ float warp_sum(float x) {
  for (int m = 16; m; m >>= 1) x += __shfl_xor_sync(0xffffffffu, x, m);
  return x;
}

constexpr int kMostParts = 8;  // columns a lane: 256 / 32

// Walks over blocks of 32 keys, one key a lane. The blocks begin at keys first, first + step, ...
__device__ void walk(const Args& a, const Row& row, int first, int step, float& top, float& sum, float (&acc)[kMostParts]) {
  const int lane = threadIdx.x & 31, parts = a.dim / 32;
  top = -INFINITY, sum = 0;
  for (int c = 0; c < kMostParts; ++c) acc[c] = 0;
  for (int at = first; at < row.end; at += step) {
    const int j = at + lane;
    float s = -INFINITY;
    if (j < row.end) {
      const half* key = row.k + size_t(j) * a.dim;
      s = 0;
      for (int c = 0; c < a.dim; ++c) s += __half2float(row.q[c]) * __half2float(key[c]);
      s *= a.scale;
    }
    const float now = fmaxf(top, warp_max(s));
    const float shift = now == -INFINITY ? 0.f : now;
    const float r = expf(top - shift), p = expf(s - shift);
    sum = sum * r + warp_sum(p);
    top = now;
    for (int c = 0; c < parts; ++c) acc[c] *= r;
    const int count = min(32, row.end - at);
    for (int n = 0; n < count; ++n) {
      const float w = __shfl_sync(0xffffffffu, p, n);
      for (int c = 0; c < parts; ++c) acc[c] += w * __half2float(row.v[size_t(at + n) * a.dim + lane + 32 * c]);
    }
  }
}

__device__ void store(const Args& a, const Row& row, float top, float sum, const float (&acc)[kMostParts]) {
  const int lane = threadIdx.x & 31;
  for (int c = 0; c < a.dim / 32; ++c) row.o[lane + 32 * c] = __float2half(sum == 0 ? 0.f : acc[c] / sum);
  if (lane == 0 && a.lse) *row.lse = sum == 0 ? -INFINITY : top + logf(sum);
}

__global__ void warp_rows(Args a) {
  const int i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (i >= a.sq) return;
  const Row row = row_of(a, i, blockIdx.y, blockIdx.z);
  float top, sum, acc[kMostParts];
  walk(a, row, 0, 32, top, sum, acc);
  store(a, row, top, sum, acc);
}

constexpr int kWarps = 4;

__global__ void shared_rows(Args a) {
  __shared__ float tops[kWarps], sums[kWarps], parts[kWarps][256];
  const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  const Row row = row_of(a, blockIdx.x, blockIdx.y, blockIdx.z);
  float top, sum, acc[kMostParts];
  walk(a, row, warp * 32, kWarps * 32, top, sum, acc);
  for (int c = 0; c < a.dim / 32; ++c) parts[warp][lane + 32 * c] = acc[c];
  if (lane == 0) tops[warp] = top, sums[warp] = sum;
  __syncthreads();
  if (warp != 0) return;
  float most = -INFINITY, total = 0;
  for (int w = 0; w < kWarps; ++w) most = fmaxf(most, tops[w]);
  const float shift = most == -INFINITY ? 0.f : most;
  for (int c = 0; c < kMostParts; ++c) acc[c] = 0;
  for (int w = 0; w < kWarps; ++w) {
    const float weight = expf(tops[w] - shift);
    total += weight * sums[w];
    for (int c = 0; c < a.dim / 32; ++c) acc[c] += weight * parts[w][lane + 32 * c];
  }
  store(a, row, most, total, acc);
}

void attend(const half* q, const half* k, const half* v, half* o, float* lse, int batch, int heads, int kv_heads, int sq,
            int sk, int dim, float scale, bool causal, cudaStream_t stream) {
  const Args a{q, k, v, o, lse, heads, kv_heads, sq, sk, dim, scale, causal};
  if (sk < 1024) {
    warp_rows<<<dim3((sq + 3) / 4, heads, batch), 128, 0, stream>>>(a);
  } else {
    shared_rows<<<dim3(sq, heads, batch), kWarps * 32, 0, stream>>>(a);
  }
}
