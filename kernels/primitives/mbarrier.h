// Barriers in shared memory that count arrivals and bytes (sm_90).
//
//   mbarrier_init(bar, count)     one thread calls it before any other use
//   mbarrier_init_fence()         the same thread, after its inits; then cta_sync()
//   mbarrier_expect(bar, bytes)   announces the bytes that copies will write, and arrives
//   mbarrier_expect_if(whether, bar, bytes)   does so if `whether` is true, without a branch
//   mbarrier_arrive(bar, whether)  arrives if `whether` is true
//   mbarrier_wait(bar, parity)    returns once the phase of that parity has completed
//
// Phases are numbered from 0. The current phase completes when `count` threads have arrived and all bytes
// announced in it have been copied; then the next phase begins. A wait names a phase by the parity of its
// number, so a waiting thread must not be two phases behind. On a new barrier, parity 0 waits for phase 0, and
// parity 1 returns at once. After the wait, the copied data is visible, and so are the writes that the arriving
// threads made before they arrived.
//
//   // the n-th use of a buffer by a producer (left) and a consumer (right)
//   mbarrier_wait(empty, (n + 1) % 2);         mbarrier_wait(full, n % 2);
//   mbarrier_expect(full, bytes);              ... read it ...
//   tma_load(buffer, map, full, ...);          mbarrier_arrive(empty, thread_id() == 0);
#pragma once

#include "kernels/primitives/platform.h"

#ifndef __CUDACC__
#include "kernels/executor/hopper.h"
#endif

namespace attn {

// Must be in shared memory (SharedArena::carve). Only the hardware interprets its bits.
struct Mbarrier {
  uint64_t bits;
};

#ifdef __CUDACC__

__device__ __forceinline__ uint32_t shared_address(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

__device__ __forceinline__ void mbarrier_init(Mbarrier* bar, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(count) : "memory");
}

__device__ __forceinline__ void mbarrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_expect(Mbarrier* bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void mbarrier_expect_if(bool whether, Mbarrier* bar, uint32_t bytes) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %2, 0;\n"
      "@p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n"
      "}\n" ::"r"(shared_address(bar)),
      "r"(bytes), "r"(static_cast<int>(whether))
      : "memory");
}

__device__ __forceinline__ void mbarrier_arrive(Mbarrier* bar, bool whether) {
  // Predicated, because a branch would stop ptxas from pipelining wgmma.
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %1, 0;\n"
      "@p mbarrier.arrive.shared::cta.b64 _, [%0];\n"
      "}\n" ::"r"(shared_address(bar)),
      "r"(static_cast<int>(whether))
      : "memory");
}

__device__ __forceinline__ void mbarrier_wait(Mbarrier* bar, uint32_t parity) {
  // The loop is inside the asm statement, because a loop in C++ would stop ptxas from pipelining wgmma.
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\n"
      "bra again;\n"
      "over:\n"
      "}\n" ::"r"(shared_address(bar)),
      "r"(parity)
      : "memory");
}

#else

inline void mbarrier_init(Mbarrier* bar, uint32_t count ATTN_AND_HERE) {
  simt::mbarrier_init(bar, count, here);
}
inline void mbarrier_init_fence(ATTN_HERE) { simt::mbarrier_init_fence(here); }
inline void mbarrier_expect(Mbarrier* bar, uint32_t bytes ATTN_AND_HERE) {
  simt::mbarrier_expect(bar, bytes, here);
}
inline void mbarrier_expect_if(bool whether, Mbarrier* bar, uint32_t bytes ATTN_AND_HERE) {
  if (whether) simt::mbarrier_expect(bar, bytes, here);
}
inline void mbarrier_arrive(Mbarrier* bar, bool whether ATTN_AND_HERE) {
  if (whether) simt::mbarrier_arrive(bar, here);
}
inline void mbarrier_wait(Mbarrier* bar, uint32_t parity ATTN_AND_HERE) {
  simt::mbarrier_wait(bar, parity, here);
}

#endif

}  // namespace attn
