// Barriers of a block.
//
//   cta_sync()              all threads of the block, from one place in the source
//   bar_sync(id, threads)   barrier 1..15: arrives, and waits until `threads` threads have arrived
//   bar_arrive(id, threads) arrives and does not wait
//
// `threads` counts the callers of both functions and is a multiple of 32. All of them must pass the same
// number. After the last arrival the barrier can be used again. Threads that waited see what all of them wrote
// to shared memory before they arrived.
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
