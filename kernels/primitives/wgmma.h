// Products of a warpgroup (sm_90a): 64 rows, fp32 accumulators in registers, and operands that the tensor core
// reads from shared memory. All 128 threads must call each function.
//
//   wgmma_fence()      call it before the first product of a batch, which then sees all
//                      registers written so far (accumulators, A fragments)
//   wgmma_ss<T>(d, a, b, accumulate)   D(64xN) = A(64x16) B(Nx16)^T + (accumulate ? D : 0)
//   wgmma_rs<T>(d, a, b, accumulate)   D(64xN) = A(64x16) B(16xN)   + (accumulate ? D : 0)
//   wgmma_tt<T>(d, a, b, accumulate)   D(64xN) = A(16x64)^T B(16xN) + (accumulate ? D : 0); A and B in
//                                      shared memory; N is 64
//   wgmma_commit()     closes a batch
//   wgmma_wait<N>()    waits for all but the N youngest batches
//   wgmma_pin(d)       the compiler may not move uses of d across this. Call it at every
//                      fence and wait that concerns d
//
// Products are asynchronous. Until the wait, do not read or write D and register operands, and do not write
// shared operands. Products with the same D run in order.
//
// Registers: warp w of the warpgroup owns rows 16w..16w+15 in the layout of C fragments of mma16816 (matrix.h):
// float d[N / 8][4], tile n holding columns 8n..8n+7. So D turns into A fragments a[4] without an exchange. N
// is 64, 80, 96, 128 or 256.
//
// Shared memory: tiles in the layout of tma_load, in panels of 64 columns.
//
//   PanelTile<T, kRows, D>   kRows rows of D columns, D / 64 panels one after the other
//   wgmma_abt(s, q, row, k)  S(64xN) = Q[row..row+64) K^T over all columns: the products of a batch,
//                            without fence and commit
//   wgmma_pv(o, p, v)        O(64xD) += P(64xN) V, likewise
//   wgmma_atb(c, a, b, panel)  C(64x64) = A^T B over all rows, likewise; A has 64 columns, and of B it takes
//                            the 64 of one panel
//
// The hardware decides the order of summation within a product of 16; the products are added with k ascending.
#pragma once

#include "kernels/primitives/tma.h"

namespace attn {

#ifdef __CUDACC__

// The hardware's descriptor of an operand in shared memory with 128-byte swizzle.
struct WgmmaOperand {
  uint64_t bits;

  // `leading`, `stride`: bytes between groups of 64 columns, and between groups of 8 rows.
  static __device__ __forceinline__ WgmmaOperand of(const void* shared, uint32_t leading, uint32_t stride) {
    return {(shared_address(shared) & 0x3FFFF) >> 4 | static_cast<uint64_t>(leading >> 4) << 16 |
            static_cast<uint64_t>(stride >> 4) << 32 | uint64_t{1} << 62};
  }

  __device__ __forceinline__ WgmmaOperand plus(uint32_t bytes) const { return {bits + (bytes >> 4)}; }
};

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int N>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

template <int M, int E>
__device__ __forceinline__ void wgmma_pin(float (&d)[M][E]) {
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int e = 0; e < E; ++e) asm volatile("" : "+f"(d[m][e])::"memory");
  }
}

template <int M, int E>
__device__ __forceinline__ void wgmma_pin(uint32_t (&a)[M][E]) {
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int e = 0; e < E; ++e) asm volatile("" : "+r"(a[m][e])::"memory");
  }
}

#else

struct WgmmaOperand {
  simt::WgmmaOperand operand;

  static WgmmaOperand of(const void* shared, uint32_t leading, uint32_t stride) {
    return {{shared, leading, stride}};
  }
  WgmmaOperand plus(uint32_t bytes) const {
    return {{static_cast<const char*>(operand.at) + bytes, operand.leading, operand.stride}};
  }
};

inline void wgmma_fence(ATTN_HERE) { simt::wgmma_fence(here); }
inline void wgmma_commit(ATTN_HERE) { simt::wgmma_commit(here); }
template <int N>
inline void wgmma_wait(ATTN_HERE) {
  simt::wgmma_wait(N, here);
}
template <int M, int E>
inline void wgmma_pin(float (&)[M][E]) {}
template <int M, int E>
inline void wgmma_pin(uint32_t (&)[M][E]) {}

template <class T>
inline constexpr bool kIsBf16 = false;
template <>
inline constexpr bool kIsBf16<BF16> = true;

template <class T, int M>
inline void wgmma_ss(float (&d)[M][4], WgmmaOperand a, WgmmaOperand b, bool accumulate ATTN_AND_HERE) {
  simt::wgmma({&d[0][0], nullptr, a.operand, b.operand, 8 * M, kIsBf16<T>, false, false, accumulate}, here);
}
template <class T, int M>
inline void wgmma_tt(float (&d)[M][4], WgmmaOperand a, WgmmaOperand b, bool accumulate ATTN_AND_HERE) {
  simt::wgmma({&d[0][0], nullptr, a.operand, b.operand, 8 * M, kIsBf16<T>, true, true, accumulate}, here);
}
template <class T, int M>
inline void wgmma_rs(float (&d)[M][4], const uint32_t (&a)[4], WgmmaOperand b, bool accumulate ATTN_AND_HERE) {
  simt::wgmma({&d[0][0], a, {}, b.operand, 8 * M, kIsBf16<T>, false, true, accumulate}, here);
}

#endif

}  // namespace attn

#ifdef __CUDACC__
#include "kernels/primitives/wgmma_ptx.h"
#endif

namespace attn {

template <class T_, int kRows_, int D_>
struct PanelTile {
  using T = T_;
  static constexpr int kRows = kRows_, D = D_;
  static_assert(D % kBoxColumns == 0 && kRows % 8 == 0);
  static constexpr int kPanelElements = kRows * kBoxColumns;
  static constexpr uint32_t kPanelBytes = kPanelElements * sizeof(T), kBytes = kPanelBytes * (D / kBoxColumns);

  T* base;  // aligned to 1024 bytes

  __device__ __forceinline__ T* panel(int n) const { return base + n * kPanelElements; }
  // The address of element (row, column); column is a multiple of 8.
  __device__ __forceinline__ T* at(int row, int column) const {
    return panel(column / 64) + row * 64 + ((column / 8 ^ row) % 8) * 8;
  }
};

template <class T, int M, int kRowsA, int D>
__device__ __forceinline__ void wgmma_abt(float (&s)[M][4], PanelTile<T, kRowsA, D> a, int row,
                                          PanelTile<T, 8 * M, D> b) {
  const WgmmaOperand a_first = WgmmaOperand::of(a.base + row * kBoxColumns, 16, 1024);
  const WgmmaOperand b_first = WgmmaOperand::of(b.base, 16, 1024);
#pragma unroll
  for (int k = 0; k < D; k += 16) {
    const uint32_t panel = k / 64, step = k % 64 * 2;
    wgmma_ss<T>(s, a_first.plus(panel * a.kPanelBytes + step), b_first.plus(panel * b.kPanelBytes + step),
                k > 0);
  }
}

template <class T, int K, int D>
__device__ __forceinline__ void wgmma_pv(float (&o)[D / 8][4], const uint32_t (&p)[K / 16][4],
                                         PanelTile<T, K, D> v) {
  const WgmmaOperand first = WgmmaOperand::of(v.base, v.kPanelBytes, 1024);
#pragma unroll
  for (int k = 0; k < K; k += 16) wgmma_rs<T>(o, p[k / 16], first.plus(k * 128), true);
}

template <class T, int kRows, int D>
__device__ __forceinline__ void wgmma_atb(float (&c)[8][4], PanelTile<T, kRows, 64> a, PanelTile<T, kRows, D> b,
                                          int panel) {
  const WgmmaOperand a_first = WgmmaOperand::of(a.base, a.kPanelBytes, 1024);
  const WgmmaOperand b_first = WgmmaOperand::of(b.panel(panel), b.kPanelBytes, 1024);
#pragma unroll
  for (int k = 0; k < kRows; k += 16) wgmma_tt<T>(c, a_first.plus(k * 128), b_first.plus(k * 128), k > 0);
}

}  // namespace attn
