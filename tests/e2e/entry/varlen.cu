// Attention over packed sequences, one thread a query, called like flash_attn_varlen's forward: Q, K, V and O are
// (row, head, dim), the LSE is (head, row).
#include <cuda_runtime.h>

struct Varlen {
  const float *q, *k, *v;
  float *o, *lse;
  const int *cu_q, *cu_k;
  int heads, heads_k, dim, total_q;
  float scale;
  bool causal;
};

__global__ void attend(Varlen a) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y, h = blockIdx.z;
  const int queries = a.cu_q[b + 1] - a.cu_q[b], keys = a.cu_k[b + 1] - a.cu_k[b];
  if (i >= queries) return;
  const size_t row = size_t(a.cu_q[b] + i) * a.heads + h;
  const float* q = a.q + row * a.dim;
  float* o = a.o + row * a.dim;
  float top = -INFINITY, sum = 0;
  for (int c = 0; c < a.dim; ++c) o[c] = 0;
  for (int j = 0; j < (a.causal ? min(keys, i + keys - queries + 1) : keys); ++j) {
    const size_t at = (size_t(a.cu_k[b] + j) * a.heads_k + h / (a.heads / a.heads_k)) * a.dim;
    float x = 0;
    for (int c = 0; c < a.dim; ++c) x += q[c] * a.k[at + c];
    x *= a.scale;
    const float now = fmaxf(top, x), w = expf(x - now), r = sum > 0 ? expf(top - now) : 0;
    sum = sum * r + w, top = now;
    for (int c = 0; c < a.dim; ++c) o[c] = o[c] * r + w * a.v[at + c];
  }
  for (int c = 0; c < a.dim; ++c) o[c] = sum > 0 ? o[c] / sum : 0;
  if (a.lse) a.lse[size_t(h) * a.total_q + a.cu_q[b] + i] = sum > 0 ? top + logf(sum) : -INFINITY;
}

// A common error: the kernel takes the end of the tensor for the end of the last sequence.
__global__ void clear_slack(float* o, const int* cu_q, int batch, int total_q, int columns) {
  for (int n = cu_q[batch] * columns + threadIdx.x; n < total_q * columns; n += blockDim.x) o[n] = 0;
}

void varlen_fwd(const float* q, const float* k, const float* v, float* o, float* lse, const int* cu_seqlens_q,
                const int* cu_seqlens_k, int batch, int max_seqlen_q, int, int total_q, int heads, int heads_k, int dim,
                float scale, bool causal, bool clears = false) {
  attend<<<dim3((max_seqlen_q + 31) / 32, batch, heads), 32>>>(
      Varlen{q, k, v, o, lse, cu_seqlens_q, cu_seqlens_k, heads, heads_k, dim, total_q, scale, causal});
  if (clears) clear_slack<<<1, 32>>>(o, cu_seqlens_q, batch, total_q, heads * dim);
}
