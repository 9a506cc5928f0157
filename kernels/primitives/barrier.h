// Barriers of a block.
//
//   cta_sync()              all threads of the block, from one place in the source
//   bar_sync(id, threads)   barrier 1..15: waits until `threads` have come
//   bar_arrive(id, threads) counts as one of them and does not wait
//
// `threads` counts arrivals and waits together and is a multiple of 32; all who
// come must give the same. After the last has come the barrier is as new. What
// any of them wrote to shared memory before is visible to those that waited.
#pragma once

#include "kernels/primitives/platform.h"

namespace attn {

#ifdef __CUDACC__

__device__ __forceinline__ void cta_sync() { __syncthreads(); }

__device__ __forceinline__ void bar_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ void bar_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

#else

inline void cta_sync(ATTN_HERE) { simt::barrier(0, simt::kWholeBlock, true, here); }

inline void bar_sync(int id, int threads ATTN_AND_HERE) {
  simt::barrier(static_cast<uint32_t>(id), static_cast<uint32_t>(threads), true, here);
}

inline void bar_arrive(int id, int threads ATTN_AND_HERE) {
  simt::barrier(static_cast<uint32_t>(id), static_cast<uint32_t>(threads), false, here);
}

#endif

}  // namespace attn
