// Tensor core attention in TF32 through nvcuda::wmma, on fp32 tensors. One warp computes 16 query rows. Tiles go
// through shared memory.
#include <cuda_runtime.h>
#include <mma.h>
using namespace nvcuda;

#define WARP_SIZE 32
#define TILE 16
#define DEPTH 8

using FragA = wmma::fragment<wmma::matrix_a, TILE, TILE, DEPTH, wmma::precision::tf32, wmma::row_major>;
template <class Layout>
using FragB = wmma::fragment<wmma::matrix_b, TILE, TILE, DEPTH, wmma::precision::tf32, Layout>;
using FragC = wmma::fragment<wmma::accumulator, TILE, TILE, DEPTH, float>;

template <class Fragment>
__device__ void load(Fragment& f, const float* from, int stride) {
  wmma::load_matrix_sync(f, from, stride);
  for (int i = 0; i < f.num_elements; ++i) f.x[i] = wmma::__float_to_tf32(f.x[i]);
}

template <int D>
__global__ void tf32_attention(const float* Q, const float* K, const float* V, float* O, int Sq, int Sk, float scale) {
  extern __shared__ __align__(32) float smem[];
  float *sQ = smem, *sK = sQ + TILE * D, *sV = sK + TILE * D, *sO = sV + TILE * D, *sS = sO + TILE * D;
  float *sM = sS + TILE * TILE, *sL = sM + TILE;
  const int lane = threadIdx.x, q0 = blockIdx.x * TILE;
  Q += (size_t)blockIdx.y * Sq * D, O += (size_t)blockIdx.y * Sq * D;
  K += (size_t)blockIdx.y * Sk * D, V += (size_t)blockIdx.y * Sk * D;
  for (int i = lane; i < TILE * D; i += WARP_SIZE) {
    sQ[i] = q0 + i / D < Sq ? Q[(size_t)q0 * D + i] : 0.f;
    sO[i] = 0.f;
  }
  if (lane < TILE) sM[lane] = -INFINITY, sL[lane] = 0.f;

  for (int k0 = 0; k0 < Sk; k0 += TILE) {
    __syncwarp();
    for (int i = lane; i < TILE * D; i += WARP_SIZE) {
      const bool in = k0 + i / D < Sk;
      sK[i] = in ? K[(size_t)k0 * D + i] : 0.f;
      sV[i] = in ? V[(size_t)k0 * D + i] : 0.f;
    }
    __syncwarp();
    FragC s;
    wmma::fill_fragment(s, 0.0f);
    for (int d = 0; d < D; d += DEPTH) {
      FragA a;
      FragB<wmma::col_major> b;
      load(a, sQ + d, D);
      load(b, sK + d, D);
      wmma::mma_sync(s, a, b, s);
    }
    for (int i = 0; i < s.num_elements; ++i) s.x[i] *= scale;
    wmma::store_matrix_sync(sS, s, TILE, wmma::mem_row_major);
    __syncwarp();

    if (lane < TILE) {
      const int keys = min(TILE, Sk - k0);
      float m = sM[lane], sum = 0.f;
      for (int j = 0; j < keys; ++j) m = fmaxf(m, sS[lane * TILE + j]);
      for (int j = 0; j < TILE; ++j) {
        const float p = j < keys ? __expf(sS[lane * TILE + j] - m) : 0.f;
        sS[lane * TILE + j] = p;
        sum += p;
      }
      const float alpha = __expf(sM[lane] - m);
      for (int d = 0; d < D; ++d) sO[lane * D + d] *= alpha;
      sL[lane] = sL[lane] * alpha + sum;
      sM[lane] = m;
    }
    __syncwarp();
    for (int d = 0; d < D; d += TILE) {
      FragC o;
      wmma::load_matrix_sync(o, sO + d, D, wmma::mem_row_major);
      for (int j = 0; j < TILE; j += DEPTH) {
        FragA p;
        FragB<wmma::row_major> v;
        load(p, sS + j, TILE);
        load(v, sV + j * D + d, D);
        wmma::mma_sync(o, p, v, o);
      }
      wmma::store_matrix_sync(sO + d, o, D, wmma::mem_row_major);
    }
  }
  __syncwarp();
  for (int i = lane; i < TILE * D; i += WARP_SIZE) {
    if (q0 + i / D < Sq) O[(size_t)q0 * D + i] = sO[i] / sL[i / D];
  }
}

void tf32_forward(const float* q, const float* k, const float* v, float* o, int bh, int sq, int sk, float scale) {
  constexpr int D = 64;
  const size_t smem = (4 * TILE * D + TILE * TILE + 2 * TILE) * sizeof(float);
  tf32_attention<D><<<dim3((sq + TILE - 1) / TILE, bh), WARP_SIZE, smem>>>(q, k, v, o, sq, sk, scale);
}
