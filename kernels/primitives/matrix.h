// Tensor-core products m16n8k16 with fp32 accumulators, the loads of their operands, and functions for whole
// rows of tiles. All 32 lanes of a warp must call them together.
//
// PTX's fragments, in lane 4g + t of a warp. The low half of a 16-bit pair comes first:
//   A 16x16   a[0] = (g, 2t..2t+1)  a[1] = (g+8, 2t..)  a[2] = (g, 2t+8..)  a[3] = (g+8, 2t+8..)
//   B 16x8    b[0] = (k = 2t..2t+1, n = g)              b[1] = (k = 2t+8.., n = g)
//   C 16x8    c[0..1] = (g, 2t..2t+1)                   c[2..3] = (g+8, 2t..2t+1)
// A row of C tiles is float c[N / 8][4], tile n holding columns 8n..8n+7. It
// turns into A fragments without any exchange: a[k] of a 16-bit P is
// {c[2k][0..1], c[2k][2..3], c[2k+1][0..1], c[2k+1][2..3]}, packed.
//
//   ldsm4(row, r)        four 8x8 matrices of 16-bit elements: lane 8j + i gives
//                        the address of row i of matrix j, a multiple of 16; lane
//                        4g + t gets elements 2t, 2t+1 of row g of matrix j in r[j]
//   ldsm4_trans(row, r)  the same for the transposed matrices
//   mma16816<T>(c, a, b) C += A B
//
//   SharedTile<T, D>     rows of D elements in shared memory, swizzled so that eight
//                        rows of one column of chunks lie in eight different bank groups
//   mma_abt<N>(c, a, a_row, b, k)     C(16xN) += A[a_row.., 0..k) B[0..N, 0..k)^T
//   mma_pb<K>(c, p, b, n)             C(16xN) += P(16xK) B[0..K, 0..n), N <= D
//
// k and n are multiples of 16 up to D and N. k, n, a_row and b are the same in all lanes. Columns of C from n
// on do not change. The hardware decides the order of summation within a product of 16; the products are added
// with k ascending. On the CPU the schedule seed chooses between two roundings
// (kernels/executor/arithmetic/mma.h), or the products round as on a chosen device
// (kernels/executor/arithmetic/arithmetic.h).
#pragma once

#include "kernels/primitives/types.h"
#include "kernels/primitives/warp.h"

namespace attn {

// Element (row, col) belongs to chunk col / 8 of its row. Within each group of eight chunks, the chunk's
// position is its number XORed with row % 8. `base` must be 16-byte aligned; bank conflicts are avoided only if
// it is 128-byte aligned.
template <class T, int D>
struct SharedTile {
  static_assert(D % 64 == 0, "a row is whole groups of eight chunks of eight elements");

  T* base;

  __device__ __forceinline__ T* at(int row, int col) const {
    return base + row * D + (((col >> 3) ^ (row & 7)) << 3) + (col & 7);
  }

  // The tile without its first `column` columns. `column` must be a multiple of 64, because the swizzle
  // permutes chunks within 64 columns.
  __device__ __forceinline__ SharedTile from_column(int column) const { return {base + column}; }

  __host__ __device__ static constexpr size_t elements(int rows) { return static_cast<size_t>(rows) * D; }
};

#ifdef __CUDACC__

__device__ __forceinline__ void ldsm4(const void* row, uint32_t (&r)[4]) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void ldsm4_trans(const void* row, uint32_t (&r)[4]) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

template <class T>
__device__ void mma16816(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);

template <>
__device__ __forceinline__ void mma16816<F16>(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <>
__device__ __forceinline__ void mma16816<BF16>(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <int N, class T, int D>
__device__ __forceinline__ void mma_abt(float (&c)[N / 8][4], SharedTile<T, D> a, int a_row, SharedTile<T, D> b,
                                        int k_extent) {
  static_assert(N % 16 == 0);
  const int lane = lane_id();
#pragma unroll
  for (int k = 0; k < D; k += 16) {
    if (k >= k_extent) break;
    uint32_t fragment[4];
    ldsm4(a.at(a_row + lane % 16, k + 8 * (lane / 16)), fragment);
#pragma unroll
    for (int n = 0; n < N; n += 16) {
      uint32_t r[4];
      ldsm4(b.at(n + lane % 8 + 8 * (lane / 16), k + 8 * (lane / 8 % 2)), r);
      mma16816<T>(c[n / 8], fragment, {r[0], r[1]});
      mma16816<T>(c[n / 8 + 1], fragment, {r[2], r[3]});
    }
  }
}

template <int K, int M, class T, int D>
__device__ __forceinline__ void mma_pb(float (&c)[M][4], const uint32_t (&p)[K / 16][4], SharedTile<T, D> b,
                                       int n_extent) {
  static_assert(K % 16 == 0 && M % 2 == 0 && 8 * M <= D);
  const int lane = lane_id();
#pragma unroll
  for (int k = 0; k < K; k += 16) {
#pragma unroll
    for (int n = 0; n < 8 * M; n += 16) {
      if (n >= n_extent) break;
      uint32_t r[4];
      ldsm4_trans(b.at(k + lane % 16, n + 8 * (lane / 16)), r);
      mma16816<T>(c[n / 8], p[k / 16], {r[0], r[1]});
      mma16816<T>(c[n / 8 + 1], p[k / 16], {r[2], r[3]});
    }
  }
}

#endif

}  // namespace attn

#ifndef __CUDACC__
#include "kernels/primitives/matrix_cpu.h"
#endif
