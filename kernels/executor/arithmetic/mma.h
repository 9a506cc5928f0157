// Matrix products for the CPU bodies of the tensor-core primitives: 16 rows by 8 columns at a time, on the
// lanes' own accumulators.
#pragma once

#include "kernels/executor/executor.h"

namespace simt {

typedef float Float4 __attribute__((vector_size(16)));
typedef float Float8 __attribute__((vector_size(32)));
typedef uint32_t Word4 __attribute__((vector_size(16)));
typedef uint32_t Word8 __attribute__((vector_size(32)));

// out[i][g] = in[g][i]: turns four registers of eight lanes into four vectors of eight rows, and back.
template <class V4, class V8>
__attribute__((always_inline)) inline void transpose_8x4(const V4 (&in)[8], V8 (&out)[4]) {
  V8 pair[4];  // in[g], in[g + 4]
  for (int g = 0; g < 4; ++g) pair[g] = __builtin_shufflevector(in[g], in[g + 4], 0, 1, 2, 3, 4, 5, 6, 7);
  const V8 a = __builtin_shufflevector(pair[0], pair[1], 0, 8, 1, 9, 4, 12, 5, 13);
  const V8 b = __builtin_shufflevector(pair[2], pair[3], 0, 8, 1, 9, 4, 12, 5, 13);
  const V8 c = __builtin_shufflevector(pair[0], pair[1], 2, 10, 3, 11, 6, 14, 7, 15);
  const V8 d = __builtin_shufflevector(pair[2], pair[3], 2, 10, 3, 11, 6, 14, 7, 15);
  out[0] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
  out[1] = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  out[2] = __builtin_shufflevector(c, d, 0, 1, 8, 9, 4, 5, 12, 13);
  out[3] = __builtin_shufflevector(c, d, 2, 3, 10, 11, 6, 7, 14, 15);
}

template <class V8, class V4>
__attribute__((always_inline)) inline void transpose_4x8(const V8 (&in)[4], V4 (&out)[8]) {
  const V8 a = __builtin_shufflevector(in[0], in[1], 0, 8, 1, 9, 4, 12, 5, 13);
  const V8 b = __builtin_shufflevector(in[2], in[3], 0, 8, 1, 9, 4, 12, 5, 13);
  const V8 c = __builtin_shufflevector(in[0], in[1], 2, 10, 3, 11, 6, 14, 7, 15);
  const V8 d = __builtin_shufflevector(in[2], in[3], 2, 10, 3, 11, 6, 14, 7, 15);
  const V8 row[4] = {__builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13),
                     __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15),
                     __builtin_shufflevector(c, d, 0, 1, 8, 9, 4, 5, 12, 13),
                     __builtin_shufflevector(c, d, 2, 3, 10, 11, 6, 7, 14, 15)};
  for (int g = 0; g < 4; ++g) {
    out[g] = __builtin_shufflevector(row[g], row[g], 0, 1, 2, 3);
    out[g + 4] = __builtin_shufflevector(row[g], row[g], 4, 5, 6, 7);
  }
}

// C(16x8) += A(16xk) B(kx8), k a multiple of 16.
//   c  by lane 4g+t: {C[g][2t], C[g][2t+1], C[g+8][2t], C[g+8][2t+1]}
//   a  [k][16]: the rows of one k side by side
//   b  element (k, n) at b[k * b_k + n * b_n]; either stride is 1
// If not `truncates`: one fused multiply-add after the other, k ascending. If `truncates`: for each 16 of k the
// addend and the products are summed in double precision, k ascending, and the sum is truncated to fp32,
// similar to tensor cores. In a device's arithmetic (arithmetic.h) `truncates` is ignored, and
// device/products.h computes block by block. `format` is the format from which A and B were converted.
enum class Format : uint8_t { kF16, kBF16 };
SIMT_EXPORT void mma_columns(float* const (&c)[32], const float* a, const float* b, int b_k, int b_n, int k,
                             Format format, bool truncates);

}  // namespace simt
