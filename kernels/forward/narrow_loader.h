// Loads 8-bit K and V into 16-bit tiles: each code is multiplied by its key's scale and rounded
// (ATTN_KV_DEQUANTISED).
#pragma once

#include "kernels/attention.h"
#include "kernels/primitives/matrix.h"
#include "kernels/primitives/types.h"

namespace attn {

// 2^n, which must be a normal number.
__device__ inline float power_of_two(int n) {
  float result;
  const uint32_t bits = static_cast<uint32_t>(n + 127) << 23;
  memcpy(&result, &bits, sizeof result);
  return result;
}

// The exact value of a code.
__device__ inline float decode_narrow(int32_t dtype, uint8_t code) {
  if (dtype == ATTN_E5M2) return to_float(F16{static_cast<uint16_t>(code << 8)});
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  float size =
      static_cast<float>(exponent == 0 ? mantissa : mantissa + 8) * power_of_two((exponent == 0 ? 1 : exponent) - 10);
  if ((code & 0x7f) == 0x7f) size = to_float(F16{0x7e00});
  return code & 0x80 ? -size : size;
}

// Loads `kRows` rows of `dim` codes; otherwise like load_tile() in tile_loader.h. row_at(r) is the first code
// of row r, or nullptr if there is no such row; scale_at(r) is the row's scale. `by_eight`: eight codes can be
// read at once. The rows have arrived after cta_sync.
template <int kRows, class T, int D, class RowAt, class ScaleAt>
__device__ void load_narrow_tile(SharedTile<T, D> tile, RowAt row_at, ScaleAt scale_at, int32_t dtype, int dim,
                                 int64_t dim_stride, bool by_eight) {
  const int chunks = (dim + 15) / 16 * 2;
  for (int i = threadIdx.x; i < kRows * chunks; i += blockDim.x) {
    const int row = i / chunks, column = i % chunks * 8;
    const uint8_t* source = row_at(row);
    uint64_t codes = 0;
    if (source != nullptr && by_eight && column < dim) {
      codes = *reinterpret_cast<const uint64_t*>(source + column);
    } else if (source != nullptr) {
      for (int c = 0; c < 8 && column + c < dim; ++c)
        codes |= static_cast<uint64_t>(source[(column + c) * dim_stride]) << 8 * c;
    }
    const float scale = source != nullptr ? scale_at(row) : 0.0f;
    T* target = tile.at(row, column);
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      const float value = decode_narrow(dtype, static_cast<uint8_t>(codes >> 8 * c)) * scale;
      target[c] = source != nullptr && column + c < dim ? from_float<T>(value) : T{0};
    }
  }
}

}  // namespace attn
