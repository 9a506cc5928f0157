// The CPU bodies of matrix.h, which documents them and includes this file.
//
// A collective converts its operands to fp32 as it reads them, eight columns of B at a time so that they stay
// in the L1 cache, and passes them to simt::mma_columns in the executor. Tiles are read here, in code that is
// instrumented like the kernel. Reads of other lanes' arguments are exempt from race detection (SIMT_SLOTS).
#pragma once

#include <string.h>

#include <type_traits>

#include "kernels/primitives/matrix.h"
#include "kernels/executor/arithmetic/mma.h"

#if SIMT_MSAN
#include <sanitizer/msan_interface.h>
#endif

namespace attn {
namespace cpu {

inline void need_lanes(const simt::Meeting& meeting, const char* name) {
  WarpReduce<Sum>::need_whole_warp(meeting, name);
}

// The low halves of eight words as fp32; high_halves() gives the high halves.
template <class T>
[[gnu::always_inline]] inline simt::Float8 low_halves(simt::Word8 words);
template <class T>
[[gnu::always_inline]] inline simt::Float8 high_halves(simt::Word8 words);

typedef uint16_t Half8 __attribute__((vector_size(16)));
typedef _Float16 F16x8 __attribute__((vector_size(16)));

// Eight consecutive elements as fp32.
template <class T>
[[gnu::always_inline]] inline simt::Float8 widen(Half8 bits);

template <>
[[gnu::always_inline]] inline simt::Float8 widen<F16>(Half8 bits) {
  return __builtin_convertvector(__builtin_bit_cast(F16x8, bits), simt::Float8);
}

template <>
[[gnu::always_inline]] inline simt::Float8 widen<BF16>(Half8 bits) {
  return __builtin_bit_cast(simt::Float8, __builtin_convertvector(bits, simt::Word8) << 16);
}

template <>
[[gnu::always_inline]] inline simt::Float8 low_halves<BF16>(simt::Word8 words) {
  return __builtin_bit_cast(simt::Float8, words << 16);
}
template <>
[[gnu::always_inline]] inline simt::Float8 high_halves<BF16>(simt::Word8 words) {
  return __builtin_bit_cast(simt::Float8, words & 0xFFFF0000u);
}
template <>
[[gnu::always_inline]] inline simt::Float8 low_halves<F16>(simt::Word8 words) {
  return widen<F16>(__builtin_convertvector(words & 0xFFFFu, Half8));
}
template <>
[[gnu::always_inline]] inline simt::Float8 high_halves<F16>(simt::Word8 words) {
  return widen<F16>(__builtin_convertvector(words >> 16, Half8));
}

template <class T>
inline constexpr simt::Format kFormat = std::is_same_v<T, F16> ? simt::Format::kF16 : simt::Format::kBF16;

[[gnu::always_inline]] inline void store8(float* to, simt::Float8 value) { memcpy(to, &value, sizeof value); }

template <class T>
inline simt::Float8 load_chunk(const T* chunk) {
  Half8 bits;
  memcpy(&bits, chunk, sizeof bits);
  return widen<T>(bits);
}

// Writes an A fragment to `a` as [k][row], 16 by 16.
template <class T>
SIMT_SLOTS inline void spread_fragment(const uint32_t* const (&lanes)[32], float* a) {
  for (int t = 0; t < 4; ++t) {
    simt::Word4 in[8];
    for (int g = 0; g < 8; ++g) memcpy(&in[g], lanes[4 * g + t], sizeof in[g]);
    simt::Word8 word[4];
    simt::transpose_8x4(in, word);
    for (int i = 0; i < 4; ++i) {
      float* k = a + (2 * t + 8 * (i / 2)) * 16 + 8 * (i % 2);
      store8(k, low_halves<T>(word[i]));
      store8(k + 16, high_halves<T>(word[i]));
    }
  }
}

// Reads a row of a matrix in shared memory. A race detector sees it as a plain read.
inline void load_row(uint16_t (&to)[8], const void* row) { memcpy(to, row, 16); }

// Tells MSan that the executor's sums depend on their operands: an undefined value in a row of A or a column of
// B makes the sums of that row or column undefined. The arguments are those of simt::mma_columns.
inline void carry_undefined([[maybe_unused]] float* const (&c)[32], [[maybe_unused]] const float* a,
                            [[maybe_unused]] const float* b, [[maybe_unused]] int b_k, [[maybe_unused]] int b_n,
                            [[maybe_unused]] int k_extent) {
#if SIMT_MSAN
  const auto undefined = [](const float* begin, int count) {
    return __msan_test_shadow(begin, static_cast<size_t>(count) * sizeof(float)) >= 0;
  };
  bool rows[16] = {}, columns[8] = {}, any = false;
  if (undefined(a, 16 * k_extent)) {
    for (int k = 0; k < k_extent; ++k) {
      for (int row = 0; row < 16; ++row) rows[row] |= undefined(a + k * 16 + row, 1);
    }
    any = true;
  }
  for (int n = 0; n < 8; ++n) {
    if (b_k == 1) {
      columns[n] = undefined(b + n * b_n, k_extent);
    } else {
      for (int k = 0; k < k_extent && !columns[n]; ++k) columns[n] = undefined(b + k * b_k + n, 1);
    }
    any |= columns[n];
  }
  for (int lane = 0; any && lane < 32; ++lane) {
    for (int e = 0; e < 4; ++e) {
      if (rows[lane / 4 + 8 * (e / 2)] || columns[2 * (lane % 4) + e % 2])
        __msan_poison(&c[lane][e], sizeof(float));
    }
  }
#endif
}

// Writes 16 rows of a tile to `a` as [k][row], with k below k_extent.
template <class T, int D>
inline void spread_rows(SharedTile<T, D> tile, int row, int k_extent, float* a) {
  for (int k = 0; k < k_extent; k += 8) {
    for (int half = 0; half < 16; half += 8) {
      simt::Float8 in[8];
      for (int i = 0; i < 8; ++i) in[i] = load_chunk(tile.at(row + half + i, k));
      // Two transpositions of 8x4 make one of 8x8.
      for (int part = 0; part < 8; part += 4) {
        simt::Float4 four[8];
        for (int i = 0; i < 8; ++i) {
          four[i] = part ? __builtin_shufflevector(in[i], in[i], 4, 5, 6, 7)
                         : __builtin_shufflevector(in[i], in[i], 0, 1, 2, 3);
        }
        simt::Float8 out[4];
        simt::transpose_8x4(four, out);
        for (int i = 0; i < 4; ++i) store8(a + (k + part + i) * 16 + half, out[i]);
      }
    }
  }
}

// Writes the first k_extent columns of eight rows of a tile to `b` as [8][D].
template <class T, int D>
inline void load_rows(SharedTile<T, D> tile, int row, int k_extent, float* b) {
  for (int i = 0; i < 8; ++i) {
    for (int k = 0; k < k_extent; k += 8) store8(b + i * D + k, load_chunk(tile.at(row + i, k)));
  }
}

// Writes eight columns of a tile with K rows to `b` as [K][8].
template <int K, class T, int D>
inline void load_columns(SharedTile<T, D> tile, int column, float* b) {
  for (int k = 0; k < K; ++k) store8(b + k * 8, load_chunk(tile.at(k, column)));
}

inline void check_row(const void* row, int lane, const simt::Meeting& meeting, const char* name) {
  if (reinterpret_cast<uintptr_t>(row) % 16 == 0) return;
  simt::fault(ATTN_REPORT_ALIGNMENT, simt::lane_of_warp(lane), meeting.here,
              "%s from shared address %p: not a multiple of 16", name, row);
}

template <bool kTrans>
struct LoadMatrix {
  static constexpr const char* kName = kTrans ? "ldsm4_trans" : "ldsm4";
  const void* row;
  uint32_t* r;
  SIMT_SLOTS static void run(simt::Lanes<LoadMatrix> lanes, const simt::Meeting& meeting) {
    need_lanes(meeting, kName);
    uint16_t matrix[4][8][8];
    for (int lane = 0; lane < 32; ++lane) {
      check_row(lanes[lane].row, lane, meeting, kName);
      load_row(matrix[lane / 8][lane % 8], lanes[lane].row);
    }
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, t = lane % 4;
      for (int j = 0; j < 4; ++j) {
        const uint32_t low = kTrans ? matrix[j][2 * t][g] : matrix[j][g][2 * t];
        const uint32_t high = kTrans ? matrix[j][2 * t + 1][g] : matrix[j][g][2 * t + 1];
        lanes[lane].r[j] = low | high << 16;
      }
    }
  }
};

template <class T>
struct Mma {
  static constexpr const char* kName = "mma16816";
  float* c;
  const uint32_t* a;
  const uint32_t* b;
  SIMT_SLOTS static void run(simt::Lanes<Mma> lanes, const simt::Meeting& meeting) {
    need_lanes(meeting, kName);
    const uint32_t* fragment[32];
    float* c[32];
    float b[16 * 8];
    for (int lane = 0; lane < 32; ++lane) {
      fragment[lane] = lanes[lane].a;
      c[lane] = lanes[lane].c;
      for (int half = 0; half < 2; ++half) {
        float* column = b + (2 * (lane % 4) + 8 * half) * 8 + lane / 4;
        unpack2<T>(lanes[lane].b[half], column[0], column[8]);
      }
    }
    float a[16 * 16];
    spread_fragment<T>(fragment, a);
    simt::mma_columns(c, a, b, 8, 1, 16, kFormat<T>, meeting.geometry->mma_truncates);
    carry_undefined(c, a, b, 8, 1, 16);
  }
};

// Reports an error unless all lanes pass the same tile, row and extent.
inline void check_uniform(bool same, int lane, const simt::Meeting& meeting, const char* name,
                          const char* what) {
  if (same) return;
  simt::fault(ATTN_REPORT_DIVERGENCE, simt::lane_of_warp(lane), meeting.here,
              "%s: lane %d passes another %s than lane 0", name, lane, what);
}

inline void check_extent(int extent, int limit, const simt::Meeting& meeting, const char* name) {
  if (extent >= 0 && extent <= limit && extent % 16 == 0) return;
  simt::fault(ATTN_REPORT_DIVERGENCE, simt::lane_of_warp(0), meeting.here,
              "%s: an extent of %d is not a multiple of 16 up to %d", name, extent, limit);
}

template <int N, class T, int D>
struct MmaAbt {
  static constexpr const char* kName = "mma_abt";
  float* c;
  const T* a;
  const T* b;
  int a_row;
  int k_extent;
  SIMT_SLOTS static void run(simt::Lanes<MmaAbt> lanes, const simt::Meeting& meeting) {
    need_lanes(meeting, kName);
    const MmaAbt& first = lanes[0];
    float* c[32];
    for (int lane = 0; lane < 32; ++lane) {
      const MmaAbt& mine = lanes[lane];
      check_uniform(mine.a == first.a && mine.a_row == first.a_row, lane, meeting, kName, "A");
      check_uniform(mine.b == first.b, lane, meeting, kName, "B");
      check_uniform(mine.k_extent == first.k_extent, lane, meeting, kName, "extent of k");
      c[lane] = mine.c;
    }
    const int k_extent = first.k_extent;
    check_extent(k_extent, D, meeting, kName);
    check_row(first.a, 0, meeting, kName);
    check_row(first.b, 0, meeting, kName);
    const SharedTile<T, D> tile{const_cast<T*>(first.b)};
    alignas(32) float a[D * 16];
    alignas(32) float columns[8 * D];
    spread_rows(SharedTile<T, D>{const_cast<T*>(first.a)}, first.a_row, k_extent, a);
    for (int n = 0; n < N; n += 8) {
      load_rows(tile, n, k_extent, columns);
      simt::mma_columns(c, a, columns, 1, D, k_extent, kFormat<T>, meeting.geometry->mma_truncates);
      carry_undefined(c, a, columns, 1, D, k_extent);
      for (float*& lane : c) lane += 4;
    }
  }
};

template <int K, int M, class T, int D>
struct MmaPb {
  static constexpr const char* kName = "mma_pb";
  float* c;
  const uint32_t* p;
  const T* b;
  int n_extent;
  int column;  // the column of B that belongs to C's first column
  SIMT_SLOTS static void run(simt::Lanes<MmaPb> lanes, const simt::Meeting& meeting) {
    need_lanes(meeting, kName);
    const MmaPb& first = lanes[0];
    float* c[32];
    const uint32_t* fragment[32];
    for (int lane = 0; lane < 32; ++lane) {
      const MmaPb& mine = lanes[lane];
      check_uniform(mine.b == first.b, lane, meeting, kName, "B");
      check_uniform(mine.n_extent == first.n_extent, lane, meeting, kName, "extent of n");
      check_uniform(mine.column == first.column, lane, meeting, kName, "column");
      c[lane] = mine.c;
      fragment[lane] = mine.p;
    }
    check_extent(first.n_extent, 8 * M, meeting, kName);
    check_row(first.b, 0, meeting, kName);
    const SharedTile<T, D> tile{const_cast<T*>(first.b)};
    alignas(32) float a[K * 16];
    alignas(32) float columns[K * 8];
    for (int k = 0; k < K; k += 16) {
      spread_fragment<T>(fragment, a + k * 16);
      for (const uint32_t*& lane : fragment) lane += 4;
    }
    for (int n = 0; n < first.n_extent; n += 8) {
      load_columns<K>(tile, first.column + n, columns);
      simt::mma_columns(c, a, columns, 8, 1, K, kFormat<T>, meeting.geometry->mma_truncates);
      carry_undefined(c, a, columns, 8, 1, K);
      for (float*& lane : c) lane += 4;
    }
  }
};

}  // namespace cpu

inline void ldsm4(const void* row, uint32_t (&r)[4] ATTN_AND_HERE) {
  cpu::LoadMatrix<false> load{row, r};
  simt::meet(load, simt::kFullMask, here);
}

inline void ldsm4_trans(const void* row, uint32_t (&r)[4] ATTN_AND_HERE) {
  cpu::LoadMatrix<true> load{row, r};
  simt::meet(load, simt::kFullMask, here);
}

template <class T>
inline void mma16816(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2] ATTN_AND_HERE) {
  cpu::Mma<T> mma{c, a, b};
  simt::meet(mma, simt::kFullMask, here);
}

template <int N, class T, int D>
inline void mma_abt(float (&c)[N / 8][4], SharedTile<T, D> a, int a_row, SharedTile<T, D> b,
                    int k_extent ATTN_AND_HERE) {
  static_assert(N % 16 == 0);
  cpu::MmaAbt<N, T, D> mma{&c[0][0], a.base, b.base, a_row, k_extent};
  simt::meet(mma, simt::kFullMask, here);
}

template <int K, int M, class T, int D>
inline void mma_pb(float (&c)[M][4], const uint32_t (&p)[K / 16][4], SharedTile<T, D> b,
                   int n_extent ATTN_AND_HERE) {
  static_assert(K % 16 == 0 && M % 2 == 0 && 8 * M <= D);
  cpu::MmaPb<K, M, T, D> mma{&c[0][0], &p[0][0], b.base, n_extent, 0};
  simt::meet(mma, simt::kFullMask, here);
}

}  // namespace attn
