// Copies rows from global memory to a swizzled tile in shared memory: 16 bytes at a time if alignment and
// strides allow it, else element by element.
#pragma once

#include "kernels/primitives/copy.h"
#include "kernels/primitives/matrix.h"

namespace attn {

// Loads `kRows` rows of `dim` elements. row_at(r) is the address of the first element of row r, or nullptr if
// there is no such row. Missing rows become zeros, and so do the columns from `dim` up to the next multiple of
// 16. `async`: 16-byte copies are possible. All threads of the block call this. The rows have arrived after
// cp_commit, cp_wait and cta_sync.
template <int kRows, class T, int D, class RowAt>
__device__ void load_tile(SharedTile<T, D> tile, RowAt row_at, int dim, int64_t dim_stride, bool async) {
  const int chunks = (dim + 15) / 16 * 2;
  for (int i = threadIdx.x; i < kRows * chunks; i += blockDim.x) {
    const int row = i / chunks, column = i % chunks * 8;
    const T* source = row_at(row);
    T* target = tile.at(row, column);
    if (async) {
      const bool valid = source != nullptr && column < dim;
      cp_async16(target, valid ? source + column : nullptr, valid);
    } else {
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        const bool valid = source != nullptr && column + c < dim;
        target[c] = valid ? source[(column + c) * dim_stride] : T{0};
      }
    }
  }
}

}  // namespace attn
