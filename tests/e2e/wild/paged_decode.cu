// Single-query attention over a paged KV cache, as serving engines do it: one block per
// (head, sequence), warps stride over the pages of the sequence's block table.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <float.h>

#define DIVIDE_ROUND_UP(a, b) (((a) + (b) - 1) / (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

namespace serving {

template <int NUM_WARPS>
inline __device__ float block_sum(float* red_smem, float sum) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int mask = 16; mask >= 1; mask /= 2) sum += __shfl_xor_sync(uint32_t(-1), sum, mask);
  if (lane == 0) red_smem[warp] = sum;
  __syncthreads();
  if (lane < NUM_WARPS) sum = red_smem[lane];
#pragma unroll
  for (int mask = NUM_WARPS / 2; mask >= 1; mask /= 2) sum += __shfl_xor_sync(uint32_t(-1), sum, mask);
  return __shfl_sync(uint32_t(-1), sum, 0);
}

template <typename scalar_t, int BLOCK_SIZE, int NUM_THREADS>
__global__ void paged_attention_kernel(scalar_t* __restrict__ out,            // [num_seqs, num_heads, head_size]
                                       const scalar_t* __restrict__ q,        // [num_seqs, num_heads, head_size]
                                       const scalar_t* __restrict__ k_cache,  // [num_blocks, block_size, num_kv_heads, head_size]
                                       const scalar_t* __restrict__ v_cache, const int num_kv_heads, const float scale,
                                       const int* __restrict__ block_tables,  // [num_seqs, max_blocks_per_seq]
                                       const int* __restrict__ context_lens, const int max_blocks_per_seq,
                                       const int head_size) {
  constexpr int NUM_WARPS = NUM_THREADS / 32;
  const int head = blockIdx.x, num_heads = gridDim.x, seq = blockIdx.y;
  const int kv_head = head / (num_heads / num_kv_heads);
  const int context_len = context_lens[seq];
  const int num_blocks = DIVIDE_ROUND_UP(context_len, BLOCK_SIZE);
  const int* block_table = block_tables + seq * max_blocks_per_seq;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  extern __shared__ char shared_mem[];
  float* logits = reinterpret_cast<float*>(shared_mem);
  __shared__ float red_smem[2 * NUM_WARPS];

  const scalar_t* q_ptr = q + (seq * num_heads + head) * head_size;
  float qk_max = -FLT_MAX;
  for (int block = warp; block < num_blocks; block += NUM_WARPS) {
    const int64_t physical_block = block_table[block];
    const int token = block * BLOCK_SIZE + lane;
    if (lane < BLOCK_SIZE) {
      const scalar_t* k_ptr = k_cache + ((physical_block * BLOCK_SIZE + lane) * num_kv_heads + kv_head) * head_size;
      float qk = 0.f;
      if (token < context_len) {
        for (int d = 0; d < head_size; ++d) qk += __half2float(q_ptr[d]) * __half2float(k_ptr[d]);
        qk *= scale;
        logits[token] = qk;
        qk_max = fmaxf(qk_max, qk);
      }
    }
  }
#pragma unroll
  for (int mask = 16; mask >= 1; mask /= 2) qk_max = fmaxf(qk_max, __shfl_xor_sync(uint32_t(-1), qk_max, mask));
  if (lane == 0) red_smem[warp] = qk_max;
  __syncthreads();
  qk_max = lane < NUM_WARPS ? red_smem[lane] : -FLT_MAX;
#pragma unroll
  for (int mask = NUM_WARPS / 2; mask >= 1; mask /= 2) qk_max = fmaxf(qk_max, __shfl_xor_sync(uint32_t(-1), qk_max, mask));
  qk_max = __shfl_sync(uint32_t(-1), qk_max, 0);

  float exp_sum = 0.f;
  for (int i = threadIdx.x; i < context_len; i += NUM_THREADS) {
    const float val = __expf(logits[i] - qk_max);
    logits[i] = val;
    exp_sum += val;
  }
  exp_sum = block_sum<NUM_WARPS>(&red_smem[NUM_WARPS], exp_sum);
  const float inv_sum = __fdividef(1.f, exp_sum + 1e-6f);
  for (int i = threadIdx.x; i < context_len; i += NUM_THREADS) logits[i] *= inv_sum;
  __syncthreads();

  for (int d = threadIdx.x; d < head_size; d += NUM_THREADS) {
    float acc = 0.f;
    for (int token = 0; token < context_len; ++token) {
      const int64_t physical_block = block_table[token / BLOCK_SIZE];
      acc += logits[token] *
             __half2float(v_cache[((physical_block * BLOCK_SIZE + token % BLOCK_SIZE) * num_kv_heads + kv_head) * head_size + d]);
    }
    out[(seq * num_heads + head) * head_size + d] = __float2half(acc);
  }
}

}  // namespace serving

#define LAUNCH_PAGED_ATTENTION(T, BLOCK, THREADS)                                                      \
  cudaFuncSetAttribute(serving::paged_attention_kernel<T, BLOCK, THREADS>,                             \
                       cudaFuncAttributeMaxDynamicSharedMemorySize, shared_mem_size);                  \
  serving::paged_attention_kernel<T, BLOCK, THREADS><<<grid, THREADS, shared_mem_size, stream>>>(      \
      out, query, key_cache, value_cache, num_kv_heads, scale, block_tables, context_lens,             \
      max_num_blocks_per_seq, head_size)

void paged_attention(half* out, half* query, half* key_cache, half* value_cache, int num_seqs, int num_heads,
                     int num_kv_heads, int head_size, float scale, const int* block_tables, const int* context_lens,
                     int max_num_blocks_per_seq, int max_context_len, cudaStream_t stream) {
  const int shared_mem_size = MAX(max_context_len * (int)sizeof(float), 16);
  dim3 grid(num_heads, num_seqs);
  LAUNCH_PAGED_ATTENTION(half, 16, 128);
}
