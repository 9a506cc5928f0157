// Asynchronous copies from global to shared memory, 16 bytes at a time.
//
//   cp_async16(shared, global, valid)  starts one; zeros if not valid, and then
//                                      `global` is not read
//   cp_commit()                        closes a group of the copies started
//   cp_wait<N>()                       waits for all but the N youngest groups
//
// Both addresses are multiples of 16. Groups belong to the calling thread: what
// other threads copied is there only after a barrier that follows their wait.
//
//   cp_async16(tile.at(row, col), key + row * stride + col, row < rows);
//   cp_commit();
//   cp_wait<0>();
//   cta_sync();
//
// The CPU lands a copy as late or as early as is legal (the schedule seed says
// which), and wants every copy waited for before its thread ends.
#pragma once

#include "kernels/primitives/platform.h"

namespace attn {

#ifdef __CUDACC__

__device__ __forceinline__ void cp_async16(void* shared, const void* global, bool valid) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const int bytes = valid ? 16 : 0;  // the rest of the 16 is zero-filled
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
  // The executor that copies is not instrumented: let the source be checked here.
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
