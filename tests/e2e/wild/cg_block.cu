// One block per query. Scores in shared memory, reductions with cooperative groups.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>

namespace cg = cooperative_groups;

template <class Op>
__device__ float block_reduce(cg::thread_block block, float value, float identity, Op op) {
  __shared__ float partial[32];
  auto tile = cg::tiled_partition<32>(block);
  value = cg::reduce(tile, value, op);
  if (tile.thread_rank() == 0) partial[tile.meta_group_rank()] = value;
  block.sync();
  value = tile.thread_rank() < tile.meta_group_size() ? partial[tile.thread_rank()] : identity;
  value = cg::reduce(tile, value, op);
  block.sync();
  return value;
}

__global__ void attention_cg(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, __nv_bfloat16* out,
                             int heads, int kv_heads, int seq_q, int seq_k, int dim, float scale, bool causal) {
  extern __shared__ float scores[];
  cg::thread_block block = cg::this_thread_block();
  const int row = block.group_index().x, head = block.group_index().y, batch = block.group_index().z;
  // layout (batch, seq, heads, dim)
  const __nv_bfloat16* qr = q + ((size_t)(batch * seq_q + row) * heads + head) * dim;
  const int kvh = head / (heads / kv_heads);
  const int keys = causal ? min(seq_k, row + seq_k - seq_q + 1) : seq_k;
  __nv_bfloat16* outr = out + ((size_t)(batch * seq_q + row) * heads + head) * dim;
  if (keys <= 0) {
    for (int d = block.thread_rank(); d < dim; d += block.size()) outr[d] = __float2bfloat16(0.f);
    return;
  }

  float local_max = -INFINITY;
  for (int j = block.thread_rank(); j < keys; j += block.size()) {
    const __nv_bfloat16* kr = k + ((size_t)(batch * seq_k + j) * kv_heads + kvh) * dim;
    float s = 0.f;
    for (int d = 0; d < dim; ++d) s += __bfloat162float(qr[d]) * __bfloat162float(kr[d]);
    scores[j] = s * scale;
    local_max = fmaxf(local_max, scores[j]);
  }
  const float m = block_reduce(block, local_max, -INFINITY, cg::greater<float>());
  float local_sum = 0.f;
  for (int j = block.thread_rank(); j < keys; j += block.size()) {
    scores[j] = __expf(scores[j] - m);
    local_sum += scores[j];
  }
  const float l = block_reduce(block, local_sum, 0.f, cg::plus<float>());
  cg::sync(block);

  for (int d = block.thread_rank(); d < dim; d += block.num_threads()) {
    float acc = 0.f;
    for (int j = 0; j < keys; ++j)
      acc += scores[j] * __bfloat162float(v[((size_t)(batch * seq_k + j) * kv_heads + kvh) * dim + d]);
    outr[d] = __float2bfloat16(acc / l);
  }
}

void attention_cg_launch(const nv_bfloat16* q, const nv_bfloat16* k, const nv_bfloat16* v, nv_bfloat16* out, int batch,
                         int heads, int kv_heads, int seq_q, int seq_k, int dim, float scale, bool causal,
                         cudaStream_t stream = 0) {
  const size_t bytes = seq_k * sizeof(float);
  attention_cg<<<{(unsigned)seq_q, (unsigned)heads, (unsigned)batch}, 64, bytes, stream>>>(
      q, k, v, out, heads, kv_heads, seq_q, seq_k, dim, scale, causal);
}
