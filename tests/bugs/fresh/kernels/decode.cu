// Decode over splits of the keys: one warp for each split of a row, then a merge. fp16, grouped heads, own workspace.
// entry: decode(q, k, v, o, lse, B, H, Hkv, Sq, Sk, D, scale, stream)
// takes: dim = one_of(64, 128, 256); seq = at_most(8); group = at_most(64); lse = Lse::kWritten; in_fp32 = true; tile = 32
#include <cuda_fp16.h>
#include <cuda_runtime.h>

constexpr int kMostParts = 8;  // columns a lane

struct Args {
  const half *q, *k, *v;
  half* o;
  float* lse;
  float *part_o, *part_max, *part_sum;  // (row, split), part_o with `dim` columns
  int rows, heads, kv_heads, sq, sk, dim, splits, length;
  float scale;
};

__device__ float warp_max(float x) {
  for (int m = 16; m; m >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, m));
  return x;
}
__device__ float warp_sum(float x) {
  for (int m = 16; m; m >>= 1) x += __shfl_xor_sync(0xffffffffu, x, m);
  return x;
}

__global__ void part(Args a) {
  const int split = blockIdx.x, row = blockIdx.y, lane = threadIdx.x;
  const int h = row / a.sq % a.heads, b = row / a.sq / a.heads;
  const int kvh = h / (a.heads / a.kv_heads);
  const half* q = a.q + size_t(row) * a.dim;
  const size_t keys = (size_t(b) * a.kv_heads + kvh) * a.sk;
  const half *k = a.k + keys * a.dim, *v = a.v + keys * a.dim;
  const int begin = split * a.length, end = min(begin + a.length, a.sk);
  float top = -INFINITY, sum = 0, acc[kMostParts] = {};
  for (int at = begin; at < end; at += 32) {
    const int j = at + lane;
    float s = -INFINITY;
    if (j < end) {
      s = 0;
      for (int c = 0; c < a.dim; ++c) s += __half2float(q[c]) * __half2float(k[size_t(j) * a.dim + c]);
      s *= a.scale;
    }
    const float now = fmaxf(top, warp_max(s));
    const float r = expf(top - now), p = expf(s - now);
    sum = sum * r + warp_sum(p);
    top = now;
    for (int c = 0; c < a.dim / 32; ++c) acc[c] *= r;
    for (int n = 0; n < min(32, end - at); ++n) {
      const float w = __shfl_sync(0xffffffffu, p, n);
      for (int c = 0; c < a.dim / 32; ++c) acc[c] += w * __half2float(v[size_t(at + n) * a.dim + lane + 32 * c]);
    }
  }
  const size_t at = size_t(row) * a.splits + split;
  for (int c = 0; c < a.dim / 32; ++c) a.part_o[at * a.dim + lane + 32 * c] = acc[c];
  if (lane == 0) a.part_max[at] = top, a.part_sum[at] = sum;
}

__global__ void merge(Args a) {
  const int row = blockIdx.x, lane = threadIdx.x;
  const size_t first = size_t(row) * a.splits;
  float most = -INFINITY;
  for (int s = lane; s < a.splits; s += 32) most = fmaxf(most, a.part_max[first + s]);
  most = warp_max(most);
  float total = 0;
  for (int s = lane; s < a.splits; s += 32) {
    if (a.part_sum[first + s] != 0) total += expf(a.part_max[first + s] - most) * a.part_sum[first + s];
  }
  total = warp_sum(total);
  for (int c = lane; c < a.dim; c += 32) {
    float x = 0;
    for (int s = 0; s < a.splits; ++s) {
      if (a.part_sum[first + s] != 0) x += expf(a.part_max[first + s] - most) * a.part_o[(first + s) * a.dim + c];
    }
    a.o[size_t(row) * a.dim + c] = __float2half(total == 0 ? 0.f : x / total);
  }
  if (lane == 0 && a.lse) a.lse[row] = total == 0 ? -INFINITY : most + logf(total);
}

void decode(const half* q, const half* k, const half* v, half* o, float* lse, int batch, int heads, int kv_heads, int sq,
            int sk, int dim, float scale, cudaStream_t stream) {
  const int rows = batch * heads * sq;
  const int splits = min(64, max(1, sk / 128));
  const int length = ((sk + splits - 1) / splits + 31) / 32 * 32;
  float* space = nullptr;
  cudaMalloc(reinterpret_cast<void**>(&space), size_t(rows) * splits * (dim + 2) * sizeof(float));
  float *part_max = space + size_t(rows) * splits * dim, *part_sum = part_max + size_t(rows) * splits;
  const Args a{q, k, v, o, lse, space, part_max, part_sum, rows, heads, kv_heads, sq, sk, dim, splits, length, scale};
  part<<<dim3(splits, rows), 32, 0, stream>>>(a);
  merge<<<rows, 32, 0, stream>>>(a);
  cudaFree(space);
}
