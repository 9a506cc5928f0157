// Products of matrix.h for a warp that owns 16 M rows: each fragment of B is loaded once and used for all of
// the rows. All 32 lanes of a warp must call them together. The fragments are those of matrix.h, M of them
// below one another.
//
//   ldsm_rows(a, row, fragments)     A[row.., 0..D) as fragments [M][D / 16][4]
//   ldsm_step(a, row, k, fragments)  A[row.., k..k + 16) as fragments [M][4]
//   ldsm_step_trans(a, k, column, fragments)  A[k..k + 16, column..)^T as fragments [M][4]
//   mma_abt(c, a, a_row, b)          C(16M x N) += A[a_row.., 0..D) B[0..N, 0..D)^T, c[M][N / 8][4]
//   mma_abt(c, fragments, b)         the same, with A in registers
//   mma_pb(c, p, b, row, column)     C(16M x N) += P(16M x 16) B[row..row + 16, column..column + N), c[M][N / 8][4]
//
// Tiles begin at multiples of 128 bytes. k, rows and columns are multiples of 16. In mma_pb, N divides 64 and
// `column` is a multiple of N, or N is D and `column` is 0 (the default). Each element has one accumulator, and
// k ascends.
#pragma once

#include "kernels/primitives/matrix.h"

namespace attn {

#ifdef __CUDACC__

namespace ptx {

// A lane's start address in a SharedTile whose rows lie at multiples of 128 bytes. The address for column `c`,
// a multiple of 16, is (start ^ c % 64 * 2) + c / 64 * 128.
template <class T, int D>
__device__ __forceinline__ uint32_t lane_start(SharedTile<T, D> tile, int row, int half) {
  const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(tile.base));
  return base + static_cast<uint32_t>(row * (2 * D) + ((half ^ (row & 7)) << 4));
}

__device__ __forceinline__ constexpr uint32_t column_of(uint32_t start, int c) {
  return (start ^ static_cast<uint32_t>(c % 64 * 2)) + static_cast<uint32_t>(c / 64 * 128);
}

// No "memory" clobber: barriers before and after the use of a tile order these loads.
__device__ __forceinline__ void ldsm4(uint32_t address, uint32_t (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

__device__ __forceinline__ void ldsm4_trans(uint32_t address, uint32_t (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

// Adds the product of 16 columns, k..k + 15, of A and B^T. a(m) returns A's fragment m.
template <int N, int M, class T, int D, class Fragment>
__device__ __forceinline__ void abt_step(float (&c)[M][N / 8][4], Fragment a, uint32_t b_start, int k) {
#pragma unroll
  for (int n = 0; n < N; n += 16) {
    uint32_t r[4];
    ldsm4(column_of(b_start, k) + n * (2 * D), r);
#pragma unroll
    for (int m = 0; m < M; ++m) {
      mma16816<T>(c[m][n / 8], a(m), {r[0], r[1]});
      mma16816<T>(c[m][n / 8 + 1], a(m), {r[2], r[3]});
    }
  }
}

}  // namespace ptx

template <int M, class T, int D>
__device__ __forceinline__ void ldsm_rows(SharedTile<T, D> a, int row, uint32_t (&fragments)[M][D / 16][4]) {
  const int lane = lane_id();
  const uint32_t start = ptx::lane_start(a, row + lane % 16, lane / 16);
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int k = 0; k < D; k += 16)
      ptx::ldsm4(ptx::column_of(start, k) + m * (16 * 2 * D), fragments[m][k / 16]);
  }
}

template <int M, class T, int D>
__device__ __forceinline__ void ldsm_step(SharedTile<T, D> a, int row, int k, uint32_t (&fragments)[M][4]) {
  const int lane = lane_id();
  const uint32_t start = ptx::column_of(ptx::lane_start(a, lane % 16, lane / 16), k) + row * (2 * D);
#pragma unroll
  for (int m = 0; m < M; ++m) ptx::ldsm4(start + m * (16 * 2 * D), fragments[m]);
}

template <int M, class T, int D>
__device__ __forceinline__ void ldsm_step_trans(SharedTile<T, D> a, int k, int column, uint32_t (&fragments)[M][4]) {
  const int lane = lane_id();
  const uint32_t start = ptx::lane_start(a, lane % 8 + 8 * (lane / 16), lane / 8 % 2) + k * (2 * D);
#pragma unroll
  for (int m = 0; m < M; ++m) ptx::ldsm4_trans(ptx::column_of(start, column + 16 * m), fragments[m]);
}

template <int N, int M, class T, int D>
__device__ __forceinline__ void mma_abt(float (&c)[M][N / 8][4], SharedTile<T, D> a, int a_row,
                                        SharedTile<T, D> b) {
  const int lane = lane_id();
  const uint32_t a_start = ptx::lane_start(a, a_row + lane % 16, lane / 16);
  const uint32_t b_start = ptx::lane_start(b, lane % 8 + 8 * (lane / 16), lane / 8 % 2);
#pragma unroll
  for (int k = 0; k < D; k += 16) {
    uint32_t fragments[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m) ptx::ldsm4(ptx::column_of(a_start, k) + m * (16 * 2 * D), fragments[m]);
    ptx::abt_step<N, M, T, D>(c, [&](int m) -> const uint32_t(&)[4] { return fragments[m]; }, b_start, k);
  }
}

template <int N, int M, class T, int D>
__device__ __forceinline__ void mma_abt(float (&c)[M][N / 8][4], const uint32_t (&a)[M][D / 16][4],
                                        SharedTile<T, D> b) {
  const int lane = lane_id();
  const uint32_t b_start = ptx::lane_start(b, lane % 8 + 8 * (lane / 16), lane / 8 % 2);
#pragma unroll
  for (int k = 0; k < D; k += 16)
    ptx::abt_step<N, M, T, D>(c, [&](int m) -> const uint32_t(&)[4] { return a[m][k / 16]; }, b_start, k);
}

template <int M, int N, class T, int D>
__device__ __forceinline__ void mma_pb(float (&c)[M][N][4], const uint32_t (&p)[M][4], SharedTile<T, D> b, int row,
                                       int column = 0) {
  static_assert(N % 2 == 0 && (8 * N == D || 64 % (8 * N) == 0));
  const int lane = lane_id();
  const uint32_t start = ptx::column_of(ptx::lane_start(b, lane % 16, lane / 16), column) + row * (2 * D);
#pragma unroll
  for (int n = 0; n < 8 * N; n += 16) {
    uint32_t r[4];
    ptx::ldsm4_trans(ptx::column_of(start, n), r);
#pragma unroll
    for (int m = 0; m < M; ++m) {
      mma16816<T>(c[m][n / 8], p[m], {r[0], r[1]});
      mma16816<T>(c[m][n / 8 + 1], p[m], {r[2], r[3]});
    }
  }
}

#endif

}  // namespace attn

#ifndef __CUDACC__
#include "kernels/primitives/matrix_rows_cpu.h"
#endif
