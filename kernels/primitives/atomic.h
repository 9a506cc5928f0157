// Atomics on global and shared memory, and memory ordering.
//
//   atomic_add(p, v)     returns the old value
//   threadfence()        all threads of the device see this thread's earlier writes
//                        before its later ones
//   ld_acquire(p)        a load; later reads of this thread are ordered after it
//   st_release(p, v)     a store; earlier writes of this thread are ordered before it
//
// The last block of several to finish is found like this:
//
//   threadfence();
//   bool last = atomic_add(counter, 1u) == blocks - 1;
//
// On the CPU ld_acquire lets the other threads of the block run, so a thread may poll for a value from its own
// block. Blocks run one after the other, so polling for a block that has not run yet never ends.
#pragma once

#include "kernels/primitives/platform.h"

#ifndef __CUDACC__
#include "kernels/executor/atomic_update.h"
#endif

namespace attn {

#ifdef __CUDACC__

template <class T>
__device__ __forceinline__ T atomic_add(T* address, T value) {
  return ::atomicAdd(address, value);
}

__device__ __forceinline__ void threadfence() { __threadfence(); }

__device__ __forceinline__ uint32_t ld_acquire(const uint32_t* address) {
  uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}

__device__ __forceinline__ void st_release(uint32_t* address, uint32_t value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

#else

template <class T>
inline T atomic_add(T* address, T value) {
  return simt::atomic_update(address, [&](T before) -> T { return before + value; });
}

inline void threadfence() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

inline uint32_t ld_acquire(const uint32_t* address) {
  simt::yield();
  return __atomic_load_n(address, __ATOMIC_ACQUIRE);
}

inline void st_release(uint32_t* address, uint32_t value) {
  __atomic_store_n(address, value, __ATOMIC_RELEASE);
}

#endif

}  // namespace attn
