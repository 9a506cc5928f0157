// Keys and values double buffered through shared memory with cuda::pipeline.
#include <cooperative_groups.h>
#include <cuda/pipeline>
#include <cuda_bf16.h>

namespace cg = cooperative_groups;
using bf16 = __nv_bfloat16;

template <int D, int BLOCK_N>
__global__ void __launch_bounds__(64) pipelined(const bf16* __restrict__ q, const bf16* __restrict__ k,
                                                const bf16* __restrict__ v, bf16* __restrict__ o, int sq, int sk,
                                                float scale) {
  constexpr int kStages = 2;
  __shared__ alignas(16) bf16 tile_k[kStages][BLOCK_N * D];
  __shared__ alignas(16) bf16 tile_v[kStages][BLOCK_N * D];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, kStages> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);

  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  q += (size_t)blockIdx.y * sq * D, o += (size_t)blockIdx.y * sq * D;
  k += (size_t)blockIdx.y * sk * D, v += (size_t)blockIdx.y * sk * D;
  const int tiles = (sk + BLOCK_N - 1) / BLOCK_N;
  auto fetch = [&](int t) {
    const int keys = min(BLOCK_N, sk - t * BLOCK_N);
    pipe.producer_acquire();
    cuda::memcpy_async(block, tile_k[t % kStages], k + (size_t)t * BLOCK_N * D, sizeof(bf16) * keys * D, pipe);
    cuda::memcpy_async(block, tile_v[t % kStages], v + (size_t)t * BLOCK_N * D, sizeof(bf16) * keys * D, pipe);
    pipe.producer_commit();
  };

  float acc[D] = {0.f};
  float m = -INFINITY, l = 0.f;
  fetch(0);
  for (int t = 0; t < tiles; ++t) {
    if (t + 1 < tiles) fetch(t + 1);
    pipe.consumer_wait();
    const int keys = min(BLOCK_N, sk - t * BLOCK_N);
    if (row < sq) {
      for (int j = 0; j < keys; ++j) {
        float s = 0.f;
        for (int d = 0; d < D; ++d) s += __bfloat162float(q[(size_t)row * D + d]) * __bfloat162float(tile_k[t % kStages][j * D + d]);
        s *= scale;
        const float m_new = fmaxf(m, s), a = __expf(m - m_new), p = __expf(s - m_new);
        for (int d = 0; d < D; ++d) acc[d] = acc[d] * a + p * __bfloat162float(tile_v[t % kStages][j * D + d]);
        l = l * a + p;
        m = m_new;
      }
    }
    pipe.consumer_release();
  }
  if (row < sq) {
    for (int d = 0; d < D; d += 2)
      *reinterpret_cast<__nv_bfloat162*>(o + (size_t)row * D + d) = __floats2bfloat162_rn(acc[d] / l, acc[d + 1] / l);
  }
}

void pipelined_attention(const bf16* q, const bf16* k, const bf16* v, bf16* o, int bh, int sq, int sk, float scale,
                         cudaStream_t stream) {
  pipelined<64, 32><<<dim3((sq + 63) / 64, bh), 64, 0, stream>>>(q, k, v, o, sq, sk, scale);
}
