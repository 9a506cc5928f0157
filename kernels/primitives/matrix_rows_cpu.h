// The CPU bodies of matrix_rows.h, which documents them and includes this file. They call the bodies of
// matrix.h once for each 16 rows.
#pragma once

#include "kernels/primitives/matrix_rows.h"

namespace attn {
namespace cpu {

// MmaAbt with A in registers.
template <int N, class T, int D>
struct MmaFragmentsBt {
  static constexpr const char* kName = "mma_abt";
  float* c;
  const uint32_t* a;
  const T* b;
  SIMT_SLOTS static void run(simt::Lanes<MmaFragmentsBt> lanes, const simt::Meeting& meeting) {
    need_lanes(meeting, kName);
    float* c[32];
    const uint32_t* fragment[32];
    for (int lane = 0; lane < 32; ++lane) {
      check_uniform(lanes[lane].b == lanes[0].b, lane, meeting, kName, "B");
      c[lane] = lanes[lane].c;
      fragment[lane] = lanes[lane].a;
    }
    check_row(lanes[0].b, 0, meeting, kName);
    const SharedTile<T, D> tile{const_cast<T*>(lanes[0].b)};
    alignas(32) float a[D * 16];
    alignas(32) float columns[8 * D];
    for (int k = 0; k < D; k += 16) {
      spread_fragment<T>(fragment, a + k * 16);
      for (const uint32_t*& lane : fragment) lane += 4;
    }
    for (int n = 0; n < N; n += 8) {
      load_rows(tile, n, D, columns);
      simt::mma_columns(c, a, columns, 1, D, D, kFormat<T>, meeting.geometry->mma_truncates);
      carry_undefined(c, a, columns, 1, D, D);
      for (float*& lane : c) lane += 4;
    }
  }
};

}  // namespace cpu

template <int M, class T, int D>
inline void ldsm_rows(SharedTile<T, D> a, int row, uint32_t (&fragments)[M][D / 16][4] ATTN_AND_HERE) {
  const int lane = lane_id();
  for (int m = 0; m < M; ++m) {
    for (int k = 0; k < D; k += 16)
      ldsm4(a.at(row + 16 * m + lane % 16, k + 8 * (lane / 16)), fragments[m][k / 16], here);
  }
}

template <int M, class T, int D>
inline void ldsm_step(SharedTile<T, D> a, int row, int k, uint32_t (&fragments)[M][4] ATTN_AND_HERE) {
  const int lane = lane_id();
  for (int m = 0; m < M; ++m) ldsm4(a.at(row + 16 * m + lane % 16, k + 8 * (lane / 16)), fragments[m], here);
}

template <int M, class T, int D>
inline void ldsm_step_trans(SharedTile<T, D> a, int k, int column, uint32_t (&fragments)[M][4] ATTN_AND_HERE) {
  const int lane = lane_id();
  for (int m = 0; m < M; ++m)
    ldsm4_trans(a.at(k + lane % 8 + 8 * (lane / 16), column + 16 * m + 8 * (lane / 8 % 2)), fragments[m], here);
}

template <int N, int M, class T, int D>
inline void mma_abt(float (&c)[M][N / 8][4], SharedTile<T, D> a, int a_row, SharedTile<T, D> b ATTN_AND_HERE) {
  for (int m = 0; m < M; ++m) mma_abt<N>(c[m], a, a_row + 16 * m, b, D, here);
}

template <int N, int M, class T, int D>
inline void mma_abt(float (&c)[M][N / 8][4], const uint32_t (&a)[M][D / 16][4],
                    SharedTile<T, D> b ATTN_AND_HERE) {
  for (int m = 0; m < M; ++m) {
    cpu::MmaFragmentsBt<N, T, D> mma{&c[m][0][0], &a[m][0][0], b.base};
    simt::meet(mma, simt::kFullMask, here);
  }
}

template <int M, int N, class T, int D>
inline void mma_pb(float (&c)[M][N][4], const uint32_t (&p)[M][4], SharedTile<T, D> b, int row,
                   int column = 0 ATTN_AND_HERE) {
  static_assert(N % 2 == 0 && (8 * N == D || 64 % (8 * N) == 0));
  for (int m = 0; m < M; ++m) {
    cpu::MmaPb<16, N, T, D> mma{&c[m][0][0], &p[m][0], b.base + row * D, 8 * N, column};
    simt::meet(mma, simt::kFullMask, here);
  }
}

}  // namespace attn
