// Tensor core attention through nvcuda::wmma. One warp computes 16 query rows.
// Scores of a 16 x 16 tile go through shared memory for the softmax.
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

#define WARP_SIZE 32
#define TILE 16

template <int D>
__global__ void wmma_attention(const half* Q, const half* K, const half* V, half* O, int Sq, int Sk, float scale) {
  extern __shared__ __align__(32) unsigned char smem[];
  half* sQ = reinterpret_cast<half*>(smem);  // TILE x D
  half* sK = sQ + TILE * D;                  // TILE x D
  half* sV = sK + TILE * D;                  // TILE x D
  half* sP = sV + TILE * D;                  // TILE x TILE
  float* sS = reinterpret_cast<float*>(sP + TILE * TILE);  // TILE x TILE
  float* sO = sS + TILE * TILE;              // TILE x D
  __shared__ float sM[TILE], sL[TILE];

  const int lane = threadIdx.x;
  const int q0 = blockIdx.x * TILE;
  Q += (size_t)blockIdx.y * Sq * D;
  O += (size_t)blockIdx.y * Sq * D;
  K += (size_t)blockIdx.y * Sk * D;
  V += (size_t)blockIdx.y * Sk * D;

  for (int i = lane; i < TILE * D; i += WARP_SIZE) {
    sQ[i] = q0 + i / D < Sq ? Q[(size_t)q0 * D + i] : __float2half(0.f);
    sO[i] = 0.f;
  }
  if (lane < TILE) {
    sM[lane] = -INFINITY;
    sL[lane] = 0.f;
  }

  for (int k0 = 0; k0 < Sk; k0 += TILE) {
    __syncwarp();
    for (int i = lane; i < TILE * D; i += WARP_SIZE) {
      const bool in = k0 + i / D < Sk;
      sK[i] = in ? K[(size_t)k0 * D + i] : __float2half(0.f);
      sV[i] = in ? V[(size_t)k0 * D + i] : __float2half(0.f);
    }
    __syncwarp();

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> s_frag;
    wmma::fill_fragment(s_frag, 0.0f);
    for (int d = 0; d < D; d += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
      wmma::load_matrix_sync(a, sQ + d, D);
      wmma::load_matrix_sync(b, sK + d, D);
      wmma::mma_sync(s_frag, a, b, s_frag);
    }
    for (int i = 0; i < s_frag.num_elements; ++i) s_frag.x[i] *= scale;
    wmma::store_matrix_sync(sS, s_frag, TILE, wmma::mem_row_major);
    __syncwarp();

    if (lane < TILE) {
      const int keys = min(TILE, Sk - k0);
      float m = sM[lane];
      for (int j = 0; j < keys; ++j) m = fmaxf(m, sS[lane * TILE + j]);
      float sum = 0.f;
      for (int j = 0; j < TILE; ++j) {
        const float p = j < keys ? __expf(sS[lane * TILE + j] - m) : 0.f;
        sP[lane * TILE + j] = __float2half(p);
        sum += p;
      }
      const float alpha = __expf(sM[lane] - m);
      for (int d = 0; d < D; ++d) sO[lane * D + d] *= alpha;
      sL[lane] = sL[lane] * alpha + sum;
      sM[lane] = m;
    }
    __syncwarp();

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p_frag;
    wmma::load_matrix_sync(p_frag, sP, TILE);
    for (int d = 0; d < D; d += 16) {
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> v_frag;
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> o_frag;
      wmma::load_matrix_sync(v_frag, sV + d, D);
      wmma::load_matrix_sync(o_frag, sO + d, D, wmma::mem_row_major);
      wmma::mma_sync(o_frag, p_frag, v_frag, o_frag);
      wmma::store_matrix_sync(sO + d, o_frag, D, wmma::mem_row_major);
    }
  }
  __syncwarp();
  for (int i = lane; i < TILE * D; i += WARP_SIZE) {
    if (q0 + i / D < Sq) O[(size_t)q0 * D + i] = __float2half(sO[i] / sL[i / D]);
  }
}

template <int D>
static void launch_d(const half* q, const half* k, const half* v, half* o, int bh, int sq, int sk, float scale) {
  const size_t smem = (3 * TILE * D + TILE * TILE) * sizeof(half) + (TILE * TILE + TILE * D) * sizeof(float);
  wmma_attention<D><<<dim3((sq + TILE - 1) / TILE, bh), WARP_SIZE, smem>>>(q, k, v, o, sq, sk, scale);
}

void wmma_forward(const half* q, const half* k, const half* v, half* o, int bh, int sq, int sk, int d, float scale) {
  if (d == 64) launch_d<64>(q, k, v, o, bh, sq, sk, scale);
  if (d == 128) launch_d<128>(q, k, v, o, bh, sq, sk, scale);
}
