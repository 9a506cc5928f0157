// Stores fragments to shared memory: the inverse of ldsm4 (matrix.h; sm_90).
//
//   stsm4(row, r)  lane 8j + i gives the address of row i of matrix j, a multiple of
//                  16; lane 4g + t's r[j] becomes elements 2t, 2t+1 of row g of matrix j
//
// All lanes of a warp must call it. tma_store and wgmma see the data after each lane has
// called fence_proxy_async (tma.h), and after a barrier.
#pragma once

#include "kernels/primitives/warp.h"

#ifndef __CUDACC__
#include "kernels/primitives/matrix_store_cpu.h"
#endif

namespace attn {

#ifdef __CUDACC__

__device__ __forceinline__ void stsm4(void* row, const uint32_t (&r)[4]) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r[0]),
               "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

#else

inline void stsm4(void* row, const uint32_t (&r)[4] ATTN_AND_HERE) {
  cpu::StoreMatrix store{row, r};
  simt::meet(store, simt::kFullMask, here);
}

#endif

}  // namespace attn
