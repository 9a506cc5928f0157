// Asynchronous copies from global to shared memory, 16 bytes at a time.
//
//   cp_async16(shared, global, valid)  starts a copy; if not valid, writes zeros and does
//                                      not read `global`
//   cp_commit()                        makes a group of the copies started since the last one
//   cp_wait<N>()                       waits for all but the N youngest groups
//
// Both addresses are multiples of 16. Groups belong to the calling thread. A copy of another thread has arrived
// only after that thread has waited and a barrier has followed.
//
//   cp_async16(tile.at(row, col), key + row * stride + col, row < rows);
//   cp_commit();
//   cp_wait<0>();
//   cta_sync();
//
// On the CPU a copy lands as early or as late as is legal, as the schedule seed decides. A thread that ends
// without waiting for its copies is reported.
#pragma once

#include "kernels/primitives/platform.h"

namespace attn {

#ifdef __CUDACC__

__device__ __forceinline__ void cp_async16(void* shared, const void* global, bool valid) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const int bytes = valid ? 16 : 0;  // the remaining bytes are filled with zeros
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void cp_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int N>
__device__ __forceinline__ void cp_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

#else

inline void cp_async16(void* shared, const void* global, bool valid ATTN_AND_HERE) {
#if SIMT_ASAN
  // The executor, which copies, is not instrumented. This load lets the sanitizer check the source.
  if (valid) (void)*static_cast<const volatile unsigned __int128*>(global);
#endif
  simt::copy_async16(shared, global, valid, here);
}

inline void cp_commit() { simt::copy_commit(); }

template <int N>
inline void cp_wait() {
  simt::copy_wait(N);
}

#endif

}  // namespace attn
