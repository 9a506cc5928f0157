// Flash attention forward with raw PTX: cp.async, ldmatrix, mma.m16n8k16. head dim 64,
// 64 queries a block (4 warps x 16 rows), tiles of 32 keys. sm_80 and up.
#include <cuda_fp16.h>
#include <stdint.h>

#define CP_ASYNC_CG(dst, src, bytes, src_bytes) \
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2, %3;\n" ::"r"(dst), "l"(src), "n"(bytes), "r"(src_bytes))
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                              \
  asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"    \
               : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                                \
               : "r"(addr))

namespace {

constexpr int kD = 64, kBr = 64, kBc = 32, kPad = 8, kLd = kD + kPad;

__device__ __forceinline__ uint32_t smem_u32(const void* p) {
  uint32_t addr;
  asm("{ .reg .u64 tmp; cvta.to.shared.u64 tmp, %1; cvt.u32.u64 %0, tmp; }\n" : "=r"(addr) : "l"(p));
  return addr;
}

__device__ __forceinline__ void ldmatrix_x2(uint32_t& r0, uint32_t& r1, uint32_t addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];\n" : "=r"(r0), "=r"(r1) : "r"(addr));
}
__device__ __forceinline__ void ldmatrix_x2_trans(uint32_t& r0, uint32_t& r1, uint32_t addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\n" : "=r"(r0), "=r"(r1) : "r"(addr));
}

__device__ __forceinline__ void mma_m16n8k16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0,  %1,  %2,  %3},"
      "{%4,  %5,  %6,  %7},"
      "{%8,  %9},"
      "{%0,  %1,  %2,  %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ uint32_t pack(float lo, float hi) {
  uint32_t r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}

// rows x kD halves from global into a padded tile, zero filled past the end
__device__ __forceinline__ void load_tile(half* tile, const half* src, int rows, int valid, int tid) {
  for (int i = tid; i < rows * (kD / 8); i += 128) {
    const int r = i / (kD / 8), c = (i % (kD / 8)) * 8;
    const bool in = r < valid;
    CP_ASYNC_CG(smem_u32(tile + r * kLd + c), src + (in ? r * kD + c : 0), 16, in ? 16 : 0);
  }
}

__global__ void __launch_bounds__(128) fa_kernel(const half* __restrict__ Q, const half* __restrict__ K,
                                                 const half* __restrict__ V, half* __restrict__ O, int seqlen_q,
                                                 int seqlen_k, float scale_log2) {
  extern __shared__ half smem[];
  half* sQ = smem;
  half* sK = sQ + kBr * kLd;
  half* sV = sK + 2 * kBc * kLd;

  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
  const int q0 = blockIdx.x * kBr;
  Q += ((size_t)blockIdx.y * seqlen_q + q0) * kD;
  O += ((size_t)blockIdx.y * seqlen_q + q0) * kD;
  K += (size_t)blockIdx.y * seqlen_k * kD;
  V += (size_t)blockIdx.y * seqlen_k * kD;

  const int tiles = (seqlen_k + kBc - 1) / kBc;
  load_tile(sQ, Q, kBr, seqlen_q - q0, tid);
  load_tile(sK, K, kBc, seqlen_k, tid);
  load_tile(sV, V, kBc, seqlen_k, tid);
  CP_ASYNC_COMMIT_GROUP();

  float o[kD / 8][4] = {};
  float row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {0.f, 0.f};
  uint32_t q[kD / 16][4];

  for (int t = 0; t < tiles; ++t) {
    half* tK = sK + (t & 1) * kBc * kLd;
    half* tV = sV + (t & 1) * kBc * kLd;
    if (t + 1 < tiles) {
      const int next = (t + 1) * kBc;
      load_tile(sK + ((t + 1) & 1) * kBc * kLd, K + (size_t)next * kD, kBc, seqlen_k - next, tid);
      load_tile(sV + ((t + 1) & 1) * kBc * kLd, V + (size_t)next * kD, kBc, seqlen_k - next, tid);
      CP_ASYNC_COMMIT_GROUP();
      CP_ASYNC_WAIT_GROUP(1);
    } else {
      CP_ASYNC_WAIT_GROUP(0);
    }
    __syncthreads();
    if (t == 0) {
      for (int k = 0; k < kD / 16; ++k) {
        const half* at = sQ + (warp * 16 + lane % 16) * kLd + k * 16 + (lane / 16) * 8;
        LDMATRIX_X4(q[k][0], q[k][1], q[k][2], q[k][3], smem_u32(at));
      }
    }

    float s[kBc / 8][4] = {};
    for (int n = 0; n < kBc / 8; ++n) {
      for (int k = 0; k < kD / 16; ++k) {
        uint32_t b0, b1;
        ldmatrix_x2(b0, b1, smem_u32(tK + (n * 8 + lane % 8) * kLd + k * 16 + (lane / 8 % 2) * 8));
        mma_m16n8k16(s[n], q[k], b0, b1);
      }
    }

    const int key0 = t * kBc + (lane % 4) * 2;
    for (int r = 0; r < 2; ++r) {
      float mx = row_max[r];
      for (int n = 0; n < kBc / 8; ++n) {
        for (int e = 0; e < 2; ++e) {
          float& x = s[n][2 * r + e];
          x = key0 + n * 8 + e < seqlen_k ? x * scale_log2 : -INFINITY;
          mx = fmaxf(mx, x);
        }
      }
      mx = fmaxf(mx, __shfl_xor_sync(0xffffffff, mx, 1));
      mx = fmaxf(mx, __shfl_xor_sync(0xffffffff, mx, 2));
      const float alpha = fast_exp2(row_max[r] - mx);
      row_max[r] = mx;
      row_sum[r] *= alpha;
      for (int d = 0; d < kD / 8; ++d) {
        o[d][2 * r] *= alpha;
        o[d][2 * r + 1] *= alpha;
      }
      for (int n = 0; n < kBc / 8; ++n) {
        for (int e = 0; e < 2; ++e) {
          s[n][2 * r + e] = fast_exp2(s[n][2 * r + e] - mx);
          row_sum[r] += s[n][2 * r + e];
        }
      }
    }

    for (int k = 0; k < kBc / 16; ++k) {
      const uint32_t p[4] = {pack(s[2 * k][0], s[2 * k][1]), pack(s[2 * k][2], s[2 * k][3]),
                             pack(s[2 * k + 1][0], s[2 * k + 1][1]), pack(s[2 * k + 1][2], s[2 * k + 1][3])};
      for (int d = 0; d < kD / 8; ++d) {
        uint32_t b0, b1;
        ldmatrix_x2_trans(b0, b1, smem_u32(tV + (k * 16 + lane % 16) * kLd + d * 8));
        mma_m16n8k16(o[d], p, b0, b1);
      }
    }
    __syncthreads();
  }

  for (int r = 0; r < 2; ++r) {
    float l = row_sum[r];
    l += __shfl_xor_sync(0xffffffff, l, 1);
    l += __shfl_xor_sync(0xffffffff, l, 2);
    const int row = warp * 16 + lane / 4 + 8 * r;
    if (q0 + row < seqlen_q) {
      for (int d = 0; d < kD / 8; ++d) {
        *reinterpret_cast<uint32_t*>(O + row * kD + d * 8 + (lane % 4) * 2) = pack(o[d][2 * r] / l, o[d][2 * r + 1] / l);
      }
    }
  }
}

}  // namespace

extern "C" int fa_forward(const void* q, const void* k, const void* v, void* o, int bh, int sq, int sk, float scale,
                          cudaStream_t stream) {
  const int smem = (kBr + 4 * kBc) * kLd * sizeof(half);
  cudaError_t err = cudaFuncSetAttribute(fa_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem);
  if (err != cudaSuccess) return (int)err;
  fa_kernel<<<dim3((sq + kBr - 1) / kBr, bh), 128, smem, stream>>>((const half*)q, (const half*)k, (const half*)v,
                                                                  (half*)o, sq, sk, scale * 1.44269504f);
  return (int)cudaGetLastError();
}
