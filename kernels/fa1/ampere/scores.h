// Turns products into exponents if there is a cap, a bias or slopes. A bias goes through shared memory, because
// a tile of it would need too many registers. If its rows are 16-byte chunks and the tile has all its keys, the
// chunks are copied together with K and V; else the bias is copied number by number, as floats.
#pragma once

#include "kernels/fa1/ampere/params.h"
#include "kernels/forward/slopes.h"
#include "kernels/primitives/copy.h"
#include "kernels/primitives/matrix.h"

namespace attn {

// The rows of the bias that a warp needs, a tile of keys at a time. Only this warp writes and reads them. Its
// part of shared memory holds two tiles of 16-bit numbers or one tile of floats.
template <AmpereSpec kSpec>
class BiasTile {
 public:
  // `room`: a word for each row of the block and each key of a tile.
  __device__ __forceinline__ BiasTile(uint32_t* room, const AmpereParams& p, const AmpereBlock& block) {
    if constexpr (kSpec.scored) {
      room_ = room + warp_id() * (kSpec.warp_rows() * kSpec.tile_k);
      if (!p.terms.pairs) return;
      const int32_t row = first_row(block) + lane_id() / kChunks;
      rows_left_ = p.seq_q - row;
      by_chunks_ = p.seq_k / kSpec.tile_k;
      from_ = static_cast<const uint16_t*>(bias_row(p.terms, block.b, block.h, 0)) +
              row * p.terms.bias.stride[2] + lane_id() % kChunks * 8;
    }
  }

  // True if tile t is loaded by chunks; then all tiles before it are, too. A tile that reaches past the
  // tensor's keys is loaded number by number.
  __device__ __forceinline__ bool by_chunks(int32_t t) const { return t < by_chunks_; }

  // Starts to load tile t. The tile has arrived after cp_wait and a barrier.
  __device__ __forceinline__ void load(const AmpereParams& p, const AmpereBlock& block, int32_t t) const {
    if (p.terms.bias_dtype == ATTN_NONE) return;
    const int32_t first_key = t * kSpec.tile_k;
    if (by_chunks(t)) {
      copy(p, t);
    } else if (p.terms.bias_dtype == ATTN_F32) {
      convert<float>(p, block, first_key);
    } else if (p.terms.bias_dtype == ATTN_F16) {
      convert<F16>(p, block, first_key);
    } else {
      convert<BF16>(p, block, first_key);
    }
  }

  // Starts to load the tile before t while t is still needed, if both are loaded by chunks: then there is room.
  // kSurely: the caller knows that they are.
  template <bool kSurely>
  __device__ __forceinline__ void load_beside(const AmpereParams& p, int32_t t) const {
    if (kSurely || by_chunks(t)) copy(p, t - 1);
  }
  // Starts to load the tile before t after the warp has read t, unless load_beside() has done so.
  __device__ __forceinline__ void load_after(const AmpereParams& p, const AmpereBlock& block, int32_t t) const {
    if (p.terms.bias_dtype == ATTN_NONE || by_chunks(t)) return;
    syncwarp();
    load(p, block, t - 1);
    cp_commit();
  }

  // Reads tile t's bias of rows 16 m..16 m + 15 in the layout of an accumulator, two numbers per word.
  __device__ __forceinline__ void words(int32_t t, int m, BiasWords<2, kSpec.tile_k / 8>& words) const {
    const int row = lane_id() % 16, chunk = lane_id() / 16;
#pragma unroll
    for (int n = 0; n < kSpec.tile_k / 8; n += 2) {
      uint32_t r[4];
      ldsm4(chunks(t) + 16 * m * kRow + at(row, chunk, n), r);
#pragma unroll
      for (int i = 0; i < 4; ++i) words.at[i % 2][n + i / 2] = r[i];
    }
  }
  // The bias of key 8 n + 2 (lane % 4) + e and row 8 r + lane / 4, as a float.
  __device__ __forceinline__ float number(int r, int n, int e) const {
    return *float_at(8 * r + lane_id() / 4, 8 * n + 2 * (lane_id() % 4) + e);
  }

 private:
  static constexpr int kChunks = kSpec.tile_k / 8,
                       kStep = 32 / kChunks;     // chunks of a row; rows that the warp copies at once
  static constexpr int kRow = kSpec.tile_k / 2;  // words of a row of chunks
  static_assert(8 % kChunks == 0 && kSpec.warp_rows() % kStep == 0);

  __device__ __forceinline__ uint32_t* chunks(int32_t t) const {
    return room_ + (t & 1) * (kSpec.warp_rows() * kRow);
  }
  // The place, in words, of chunk `chunk ^ n` of a row. The swizzle spreads eight rows of a column of chunks
  // over all banks.
  __device__ __forceinline__ static int at(int row, int chunk, int n = 0) {
    return row * kRow + 4 * (chunk ^ row * kChunks / 8 % kChunks ^ n);
  }
  // The swizzle spreads four rows of a column of pairs of floats over all banks.
  __device__ __forceinline__ float* float_at(int row, int key) const {
    static_assert(kSpec.tile_k % 32 == 0);
    return reinterpret_cast<float*>(room_) + row * kSpec.tile_k + (key ^ row % 4 * 8);
  }

  __device__ __forceinline__ static int32_t first_row(const AmpereBlock& block) {
    return block.first_row + warp_id() * kSpec.warp_rows();
  }

  // Starts the copies of tile t by chunks. Rows past the last become zeros.
  __device__ __forceinline__ void copy(const AmpereParams& p, int32_t t) const {
    const uint16_t* from = from_ + t * kSpec.tile_k;
    const int row = lane_id() / kChunks, chunk = lane_id() % kChunks;
#pragma unroll
    for (int r = 0; r < kSpec.warp_rows(); r += kStep) {
      // Eight rows further the swizzle is the same.
      cp_async16(chunks(t) + at(row + r % 8, chunk) + (r - r % 8) * kRow, from, r < rows_left_);
      from += kStep * p.terms.bias.stride[2];
    }
  }

  // Copies a tile number by number. Keys past the tensor are hidden, so their bias is not read.
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

  uint32_t* room_ = nullptr;
  const uint16_t* from_ = nullptr;  // this thread's first chunk of the first tile
  int32_t rows_left_ = 0;           // rows of the tensor from that chunk's row on
  int32_t by_chunks_ = 0;           // tiles that are loaded by chunks
};

// Turns the products of tile t into exponents. s[m][n][e] is as in mask_tile().
template <AmpereSpec kSpec, int M, int N>
__device__ __forceinline__ void score_tile(const AmpereParams& p, const BiasTile<kSpec>& bias, int32_t t,
                                           float (&s)[M][N][4]) {
#pragma unroll
  for (int m = 0; m < M; ++m) cap_scores<2>(p.terms, s[m]);
  if (p.terms.bias_dtype == ATTN_NONE) return;
  const bool paired = bias.by_chunks(t);
#pragma unroll
  for (int m = 0; m < M; ++m) {
    if (paired) {
      BiasWords<2, N> words;
      bias.words(t, m, words);
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

// Subtracts the slope term of the block's head from the exponents of tile t.
template <AmpereSpec kSpec, int M, int N>
__device__ __forceinline__ void slope_tile(const AmpereParams& p, const AmpereBlock& block, int32_t t,
                                           float (&s)[M][N][4]) {
  if (p.slopes.data == nullptr) return;
  const float slope = slope_of(p.slopes, block.b, block.h);
  const int32_t first = block.first_row + warp_id() * kSpec.warp_rows() + lane_id() / 4 + block.shift;
#pragma unroll
  for (int m = 0; m < M; ++m) {
    for (int r = 0; r < 2; ++r) take_slope(r, slope, first + 16 * m + 8 * r, t * kSpec.tile_k, s[m]);
  }
}

// Replaces each score of a tile, whose bias is loaded by chunks, by change(score, bias).
template <AmpereSpec kSpec, int M, int N, class Each>
__device__ __forceinline__ void with_tile(const AmpereParams& p, const BiasTile<kSpec>& bias, int32_t t,
                                          float (&s)[M][N][4], Each change) {
  BiasWords<2, N> words[M];
#pragma unroll
  for (int m = 0; m < M; ++m) bias.words(t, m, words[m]);
  if (p.terms.bias_dtype == ATTN_F16) {
#pragma unroll
    for (int m = 0; m < M; ++m) with_words<F16>(words[m], s[m], change);
  } else {
#pragma unroll
    for (int m = 0; m < M; ++m) with_words<BF16>(words[m], s[m], change);
  }
}

// If p.rough, adds the bias roughly (rough_biased() in score_terms.h). settle_tile() corrects the results.
template <AmpereSpec kSpec, int M, int N>
__device__ __forceinline__ void add_rough(const AmpereParams& p, const BiasTile<kSpec>& bias, int32_t t,
                                          float (&s)[M][N][4]) {
  with_tile(p, bias, t, s, [&](float score, float bias) { return rough_biased(score, p.terms.scale, bias); });
}

// Turns the results of add_rough() into the exponents that score_tile() would have made.
template <AmpereSpec kSpec, int M, int N>
__device__ __forceinline__ void settle_tile(const AmpereParams& p, const BiasTile<kSpec>& bias, int32_t t,
                                            float (&s)[M][N][4]) {
  with_tile(p, bias, t, s, [](float rough, float bias) { return settled(rough, bias); });
}

}  // namespace attn
