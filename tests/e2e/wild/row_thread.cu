// attention.cu -- each thread owns one query row; K/V are staged through shared memory.
// D is a compile time constant so that q[] and o[] live in registers.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math_constants.h>

template <int HEAD_DIM, int BLOCK_M, int BLOCK_N>
__global__ __launch_bounds__(BLOCK_M, 4)
void attn_fwd(const __half* __restrict__ Q, const __half* __restrict__ K, const __half* __restrict__ V,
              __half* __restrict__ Out, float* __restrict__ Lse, const int seqlen, const float sm_scale)
{
    __shared__ __half sK[BLOCK_N][HEAD_DIM];
    __shared__ __half sV[BLOCK_N][HEAD_DIM];

    const int bh  = blockIdx.y;
    const int row = blockIdx.x * BLOCK_M + threadIdx.x;
    const size_t base = (size_t)bh * seqlen * HEAD_DIM;

    float q[HEAD_DIM], o[HEAD_DIM];
    #pragma unroll
    for (int i = 0; i < HEAD_DIM; ++i) {
        q[i] = row < seqlen ? __half2float(Q[base + (size_t)row * HEAD_DIM + i]) : 0.f;
        o[i] = 0.f;
    }
    float m_i = -CUDART_INF_F;
    float l_i = 0.f;

    // causal: tiles past the last row of this block are skipped
    const int last = min(seqlen, (int)(blockIdx.x + 1) * BLOCK_M);
    for (int start = 0; start < last; start += BLOCK_N) {
        __syncthreads();
        for (int idx = threadIdx.x; idx < BLOCK_N * HEAD_DIM; idx += blockDim.x) {
            const int r = idx / HEAD_DIM, c = idx % HEAD_DIM;
            const bool ok = start + r < seqlen;
            sK[r][c] = ok ? K[base + (size_t)(start + r) * HEAD_DIM + c] : __float2half(0.f);
            sV[r][c] = ok ? V[base + (size_t)(start + r) * HEAD_DIM + c] : __float2half(0.f);
        }
        __syncthreads();

        for (int n = 0; n < BLOCK_N; ++n) {
            if (start + n > row || start + n >= seqlen) break;
            float s = 0.f;
            #pragma unroll
            for (int i = 0; i < HEAD_DIM; ++i) s = fmaf(q[i], __half2float(sK[n][i]), s);
            s *= sm_scale;
            const float m_new = fmaxf(m_i, s);
            const float corr  = __expf(m_i - m_new);
            const float p     = __expf(s - m_new);
            #pragma unroll
            for (int i = 0; i < HEAD_DIM; ++i) o[i] = o[i] * corr + p * __half2float(sV[n][i]);
            l_i = l_i * corr + p;
            m_i = m_new;
        }
    }
    if (row < seqlen) {
        #pragma unroll
        for (int i = 0; i < HEAD_DIM; ++i) Out[base + (size_t)row * HEAD_DIM + i] = __float2half_rn(o[i] / l_i);
        Lse[(size_t)bh * seqlen + row] = m_i + logf(l_i);
    }
}

template <int D>
void run_attn(__half* q, __half* k, __half* v, __half* o, float* lse, int b, int h, int s, float scale, cudaStream_t st)
{
    constexpr int BM = 64, BN = 32;
    const dim3 grid((s + BM - 1) / BM, b * h);
    attn_fwd<D, BM, BN><<<grid, BM, 0, st>>>(q, k, v, o, lse, s, scale);
}

void causal_attention(__half* q, __half* k, __half* v, __half* o, float* lse, int b, int h, int s, int d,
                      float scale, cudaStream_t st)
{
    switch (d) {
        case 32:  return run_attn<32>(q, k, v, o, lse, b, h, s, scale, st);
        case 64:  return run_attn<64>(q, k, v, o, lse, b, h, s, scale, st);
        default: __builtin_unreachable();
    }
}
