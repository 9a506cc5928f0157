// Checks that the four lanes of a quad hold equal copies of a value: a row's maximum, its sum, its rescale
// factor. If two lanes differ by one bit, they rescale one row by two factors, and the error is too small for
// any tolerance to show.
//
//   check_quad_agrees(row_max);  // float, or float row_max[2]: all of them in one call
//
// On the CPU a difference is a DISAGREEMENT report. On CUDA the check compiles to nothing.
#pragma once

#include "kernels/primitives/platform.h"

namespace attn {

#ifdef __CUDACC__

template <int N>
__device__ __forceinline__ void check_quad_agrees(const float (&)[N]) {}
__device__ __forceinline__ void check_quad_agrees(float) {}

#else

namespace cpu {

template <int N>
struct QuadAgrees {
  static constexpr const char* kName = "check_quad_agrees";
  const float* values;
  SIMT_SLOTS static void run(simt::Lanes<QuadAgrees> lanes, const simt::Meeting& meeting) {
    for (int lane = 0; lane < 32; ++lane) {
      if (!(meeting.members >> lane & 1)) continue;
      for (int i = 0; i < N; ++i) {
        const float mine = lanes[lane].values[i], first = lanes[lane & ~3].values[i];
        if (__builtin_bit_cast(uint32_t, mine) == __builtin_bit_cast(uint32_t, first)) continue;
        simt::fault(ATTN_REPORT_DISAGREEMENT, simt::lane_of_warp(lane), meeting.here,
                    "lane %d holds %a and lane %d of its quad %a: they must hold the same value", lane,
                    static_cast<double>(mine), lane & ~3, static_cast<double>(first));
      }
    }
  }
};

}  // namespace cpu

template <int N>
inline void check_quad_agrees(const float (&values)[N] ATTN_AND_HERE) {
  cpu::QuadAgrees<N> agrees{values};
  simt::meet(agrees, simt::kFullMask, here);
}

inline void check_quad_agrees(float value ATTN_AND_HERE) {
  const float values[1] = {value};
  check_quad_agrees(values, here);
}

#endif

}  // namespace attn
