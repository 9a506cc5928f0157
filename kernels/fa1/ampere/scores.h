// Products to exponents, where there is a cap or a bias.
#pragma once

#include "kernels/fa1/ampere/params.h"

namespace attn {

// s[m][n][e] as mask_tile() has it.
template <int M, int N>
__device__ __forceinline__ void score_tile(const AmpereParams& p, const AmpereBlock& block, int32_t my_row,
                                           int32_t first_key, float (&s)[M][N][4]) {
#pragma unroll
  for (int m = 0; m < M; ++m) {
    const int32_t row = my_row + 16 * m;
    const void* const rows[2] = {bias_row(p.terms, block.b, block.h, row),
                                 bias_row(p.terms, block.b, block.h, row + 8)};
    BiasWords<2, N> words;
    load_biases(p.terms, rows, first_key, words);
    change_scores(p.terms, rows, first_key, words, s[m]);
  }
}

}  // namespace attn
