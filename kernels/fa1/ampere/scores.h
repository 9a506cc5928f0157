// Products to exponents, where there is a cap or a bias. A bias comes by way of shared memory, for there are no
// registers that a tile of it could wait in: by 16-byte copies, a tile ahead, where it is made of such chunks
// and the tile has all its keys; else number by number, as floats.
#pragma once

#include "kernels/fa1/ampere/params.h"
#include "kernels/primitives/copy.h"

namespace attn {

// The rows of the bias that a warp needs, a tile of keys at a time. That warp alone writes and reads them.
template <AmpereSpec kSpec>
class BiasTile {
 public:
  // `room`: of all rows of the block, a word a key.
  __device__ __forceinline__ explicit BiasTile(uint32_t* room)
      : room_(kSpec.scored ? room + warp_id() * (kSpec.warp_rows() * kSpec.tile_k) : nullptr) {}

  // Starts to load tile t, which is there after a cp_wait and a barrier.
  __device__ __forceinline__ void load(const AmpereParams& p, const AmpereBlock& block, int32_t t) const {
    if (p.terms.bias_dtype == ATTN_NONE) return;
    const int32_t first_key = t * kSpec.tile_k;
    if (by_words<kSpec.tile_k / 8>(p.terms, first_key)) {
      copy(p, block, first_key);
    } else if (p.terms.bias_dtype == ATTN_F32) {
      convert<float>(p, block, first_key);
    } else if (p.terms.bias_dtype == ATTN_F16) {
      convert<F16>(p, block, first_key);
    } else {
      convert<BF16>(p, block, first_key);
    }
  }

  // Keys 8 n + 2 (lane % 4) and the next of row 8 r + lane / 4: two numbers of the bias in a word.
  __device__ __forceinline__ uint32_t word(int r, int n) const {
    return *word_at(8 * r + lane_id() / 4, 4 * n + lane_id() % 4);
  }
  // The same as floats.
  __device__ __forceinline__ float number(int r, int n, int e) const {
    return *float_at(8 * r + lane_id() / 4, 8 * n + 2 * (lane_id() % 4) + e);
  }

 private:
  // Eight rows of a column of words meet all banks, as do four of a column of pairs of floats.
  __device__ __forceinline__ uint32_t* word_at(int row, int word) const {
    return room_ + row * (kSpec.tile_k / 2 + 4) + word;
  }
  __device__ __forceinline__ float* float_at(int row, int key) const {
    static_assert(kSpec.tile_k % 32 == 0);
    return reinterpret_cast<float*>(room_) + row * kSpec.tile_k + (key ^ row % 4 * 8);
  }

  __device__ __forceinline__ static int32_t first_row(const AmpereBlock& block) {
    return block.first_row + warp_id() * kSpec.warp_rows();
  }

  // Rows past the last become zeros.
  __device__ __forceinline__ void copy(const AmpereParams& p, const AmpereBlock& block,
                                       int32_t first_key) const {
    constexpr int kChunks = kSpec.tile_k / 8, kStep = 32 / kChunks;  // of a row; rows copied at once
    static_assert(32 % kChunks == 0 && kSpec.warp_rows() % kStep == 0);
    const int row = lane_id() / kChunks, chunk = lane_id() % kChunks;
    const int32_t first = first_row(block) + row;
    const int64_t stride = p.terms.bias.stride[2];
    const uint16_t* from = static_cast<const uint16_t*>(bias_row(p.terms, block.b, block.h, 0)) +
                           first * stride + first_key + 8 * chunk;
#pragma unroll
    for (int r = 0; r < kSpec.warp_rows(); r += kStep) {
      cp_async16(word_at(row + r, 4 * chunk), from, first + r < p.seq_q);
      from += kStep * stride;
    }
  }

  // Beyond the tensor's keys none is read: those are hidden.
  template <class B>
  __device__ __forceinline__ void convert(const AmpereParams& p, const AmpereBlock& block,
                                          int32_t first_key) const {
#pragma unroll 1
    for (int key = lane_id(); key < kSpec.tile_k; key += 32) {
      const bool inside = first_key + key < p.seq_k;
      const int64_t at = (first_key + key) * p.terms.bias.stride[3];
#pragma unroll 4
      for (int r = 0; r < kSpec.warp_rows(); ++r) {
        const B* row = static_cast<const B*>(bias_row(p.terms, block.b, block.h, first_row(block) + r));
        *float_at(r, key) = inside ? bias_of(row[at]) : 0.0f;
      }
    }
  }

  uint32_t* room_;
};

// s[m][n][e] as mask_tile() has it, of tile t.
template <AmpereSpec kSpec, int M, int N>
__device__ __forceinline__ void score_tile(const AmpereParams& p, const BiasTile<kSpec>& bias, int32_t t,
                                           float (&s)[M][N][4]) {
#pragma unroll
  for (int m = 0; m < M; ++m) cap_scores<2>(p.terms, s[m]);
  if (p.terms.bias_dtype == ATTN_NONE) return;
  const bool paired = by_words<N>(p.terms, t * kSpec.tile_k);
#pragma unroll
  for (int m = 0; m < M; ++m) {
    if (paired) {
      BiasWords<2, N> words;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
#pragma unroll
        for (int n = 0; n < N; ++n) words.at[r][n] = bias.word(2 * m + r, n);
      }
      if (p.terms.bias_dtype == ATTN_F16) {
        add_words<F16>(p.terms, words, s[m]);
      } else {
        add_words<BF16>(p.terms, words, s[m]);
      }
    } else {
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          s[m][n][e] = biased(s[m][n][e], p.terms.scale, bias.number(2 * m + e / 2, n, e % 2));
      }
    }
  }
}

}  // namespace attn
