// Copies rows from global memory to a swizzled tile, 16 bytes at a time. A thread copies one column of chunks
// in every n-th row, so that only a pointer moves between two copies.
#pragma once

#include "kernels/fa1/ampere/params.h"
#include "kernels/primitives/copy.h"
#include "kernels/primitives/matrix.h"

namespace attn {

// This thread's part of the tiles, of kRows rows each, of one head of a tensor. Tiles are loaded from the last
// to the first. Only the last tile can have fewer than kRows rows. Missing rows and columns from `dim` on
// become zeros.
template <class T, AmpereSpec kSpec, int kRows>
class TileSource {
 public:
  // `head`: the element (b, h, 0, 0). `stride`: the stride of rows, one of the kernel's parameters.
  __device__ __forceinline__ TileSource(const T* head, const int64_t& stride, int32_t first_row, int32_t dim)
      : from_(head + (row() + static_cast<int64_t>(first_row)) * stride + column()),
        stride_(stride),
        inside_(column() < dim) {}

  // Starts the copies of a tile with `rows` rows, then moves on to the tile before it.
  __device__ __forceinline__ void load(SharedTile<T, kSpec.dim> tile, int32_t rows) {
    copy(tile, [&](int r) { return inside_ && row() + r < rows; });
  }

  // Does the same for a tile with all its rows.
  __device__ __forceinline__ void load(SharedTile<T, kSpec.dim> tile) {
    copy(tile, [&](int) { return inside_; });
  }

 private:
  static constexpr int kChunks = kSpec.dim / 8;
  static constexpr int kStep = kSpec.threads() / kChunks;  // rows that all threads copy at once
  static_assert(kStep % 8 == 0, "a thread's swizzled column is the same in all its rows");

  __device__ __forceinline__ static int row() { return thread_id() / kChunks; }
  __device__ __forceinline__ static int column() { return thread_id() % kChunks * 8; }

  template <class Valid>
  __device__ __forceinline__ void copy(SharedTile<T, kSpec.dim> tile, Valid valid) {
    static_assert(kRows % kStep == 0);
    const T* from = from_;
    T* to = tile.at(row(), column());
#pragma unroll
    for (int r = 0; r < kRows; r += kStep) {
      cp_async16(to + r * kSpec.dim, from, valid(r));
      from += kStep * stride_;
    }
    from_ -= kRows * stride_;
  }

  const T* from_;
  const int64_t& stride_;
  bool inside_;
};

}  // namespace attn
