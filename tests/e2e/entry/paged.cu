// Attention over keys in pages, one thread a query, called as by serving engines. K and V are (page, slot, head, dim);
// queries are dense, (batch, head, query, dim), or packed, (row, head, dim).
#include <cuda_runtime.h>

struct Paged {
  const float *q, *k, *v;
  float* o;
  const int *table, *lengths, *cu_q;
  int queries, heads, heads_k, dim, page, each;
  float scale;
};

__global__ void attend(Paged a) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y, h = blockIdx.z;
  if (i >= (a.cu_q ? a.cu_q[b + 1] - a.cu_q[b] : a.queries)) return;
  const size_t row = a.cu_q ? size_t(a.cu_q[b] + i) * a.heads + h : (size_t(b) * a.heads + h) * a.queries + i;
  const float* q = a.q + row * a.dim;
  float* o = a.o + row * a.dim;
  float top = -INFINITY, sum = 0;
  for (int c = 0; c < a.dim; ++c) o[c] = 0;
  for (int j = 0; j < a.lengths[b]; ++j) {
    const size_t slot = size_t(a.table[b * a.each + j / a.page]) * a.page + j % a.page;
    const size_t at = (slot * a.heads_k + h / (a.heads / a.heads_k)) * a.dim;
    float x = 0;
    for (int c = 0; c < a.dim; ++c) x += q[c] * a.k[at + c];
    x *= a.scale;
    const float now = fmaxf(top, x), w = expf(x - now), r = sum > 0 ? expf(top - now) : 0;
    sum = sum * r + w, top = now;
    for (int c = 0; c < a.dim; ++c) o[c] = o[c] * r + w * a.v[at + c];
  }
  for (int c = 0; c < a.dim; ++c) o[c] = sum > 0 ? o[c] / sum : 0;
}

void paged_attention(float* out, const float* q, const float* k_cache, const float* v_cache, const int* block_table,
                     const int* seq_lens, int seqs, int queries, int heads, int heads_k, int dim, float scale, int block_size,
                     int blocks_per_seq, const int* cu_q = nullptr) {
  attend<<<dim3((queries + 31) / 32, seqs, heads), 32>>>(Paged{q, k_cache, v_cache, out, block_table, seq_lens, cu_q, queries,
                                                               heads, heads_k, dim, block_size, blocks_per_seq, scale});
}
