// ldmatrix and stmatrix of inline PTX: what the lanes of a warp do together.
#pragma once

#include <stdint.h>

#include "kernels/primitives/matrix.h"
#include "kernels/cuda_source/cuda/api.h"

namespace simt::ptx {

// ldmatrix, of 1, 2 or 4 matrices.
template <int kCount, bool kTrans>
struct LoadMatrix {
  static constexpr const char* kName = "ldmatrix";
  const void* row;
  uint32_t r[4];
  SIMT_SLOTS static void run(Lanes<LoadMatrix> lanes, const Meeting& meeting) {
    attn::cpu::need_lanes(meeting, kName);
    uint16_t matrix[4][8][8];
    for (int lane = 0; lane < 8 * kCount; ++lane) {
      attn::cpu::check_row(lanes[lane].row, lane, meeting, kName);
      attn::cpu::load_row(matrix[lane / 8][lane % 8], lanes[lane].row);
    }
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, t = lane % 4;
      for (int j = 0; j < kCount; ++j) {
        const uint32_t low = kTrans ? matrix[j][2 * t][g] : matrix[j][g][2 * t];
        const uint32_t high = kTrans ? matrix[j][2 * t + 1][g] : matrix[j][g][2 * t + 1];
        lanes[lane].r[j] = low | high << 16;
      }
    }
  }
};

template <bool kTrans>
struct StoreMatrix {
  static constexpr const char* kName = "stmatrix";
  void* row;
  uint32_t r[4];
  int count;
  SIMT_SLOTS static void run(Lanes<StoreMatrix> lanes, const Meeting& meeting) {
    attn::cpu::need_lanes(meeting, kName);
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, t = lane % 4;
      for (int j = 0; j < lanes[lane].count; ++j) {
        for (int half = 0; half < 2; ++half) {
          const auto value = static_cast<uint16_t>(lanes[lane].r[j] >> 16 * half);
          const int i = kTrans ? 2 * t + half : g, column = kTrans ? g : 2 * t + half;
          attn::cpu::check_row(lanes[8 * j + i].row, 8 * j + i, meeting, kName);
          memcpy(static_cast<uint16_t*>(lanes[8 * j + i].row) + column, &value, sizeof value);
        }
      }
    }
  }
};

}  // namespace simt::ptx
