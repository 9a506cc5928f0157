// Warpgroups: four consecutive warps, the first a multiple of four, on which wgmma and setmaxnreg operate
// (sm_90a).
//
//   warpgroup_id()          of the calling thread
//   elect_one()             true in one lane of the warp; all 32 lanes call it
//   give_registers<N>()     the warpgroup keeps N registers per thread and gives the rest back
//   take_registers<N>()     waits until the warpgroup can have N registers per thread
//   kHasWarpgroups          true if this compilation has these functions. If not, a kernel
//                           that uses them must only call no_warpgroups()
//   no_warpgroups()         stops the kernel with an error, so that a library built for sm_90
//                           instead of sm_90a does not leave its results unwritten
//   device_has_warpgroups() on the host: true if the current device has them
//
// N is a multiple of 8 in 24..256. The compiler gives each thread R registers
// (__launch_bounds__(threads, blocks)), and all warpgroups of a block together never
// hold more than threads * R. All 128 threads of the warpgroup must call both functions. A
// warpgroup can take registers only after others have given them back.
//
// Barriers between warpgroups are bar_sync and bar_arrive (barrier.h).
#pragma once

#include "kernels/primitives/warp.h"

#ifndef __CUDACC__
#include "kernels/executor/hopper.h"
#endif

namespace attn {

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr bool kHasWarpgroups = false;
#else
inline constexpr bool kHasWarpgroups = true;
#endif

inline constexpr int kWarpgroup = 128;

#ifdef __CUDACC__

inline bool device_has_warpgroups() {
  int device = 0, major = 0, minor = 0;
  const bool known = cudaGetDevice(&device) == cudaSuccess &&
                     cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
                     cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess;
  if (!known) cudaGetLastError();
  return known && major == 9 && minor == 0;
}

__device__ __forceinline__ void no_warpgroups() { __trap(); }

__device__ __forceinline__ bool elect_one() {
  uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}\n"
      : "=r"(elected));
  return elected != 0;
}

template <int N>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

// The shuffle tells the compiler that the value is the same in all threads of a warp.
__device__ __forceinline__ int warpgroup_id() { return __shfl_sync(0xffffffffu, thread_id() / kWarpgroup, 0); }

#else

inline bool device_has_warpgroups() { return true; }
inline void no_warpgroups() {}  // the executor has warpgroups
inline bool elect_one(ATTN_HERE) { return simt::elect_one(here); }
template <int N>
inline void give_registers(ATTN_HERE) {
  simt::set_registers(N, false, here);
}
template <int N>
inline void take_registers(ATTN_HERE) {
  simt::set_registers(N, true, here);
}
inline int warpgroup_id() { return thread_id() / kWarpgroup; }

#endif

}  // namespace attn
