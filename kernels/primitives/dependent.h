// Programmatic dependent launch (sm_90): a kernel starts before the previous kernel of the stream has ended,
// and waits for it on the device.
//
//   launch_dependent(...)     launch(), but the previous kernel on env->stream may still be
//                             running when this one begins
//   grid_dependency_wait()    returns when the previous kernel has ended and all its writes are
//                             visible. A thread must call it before it reads or overwrites
//                             memory of earlier kernels, or must pass a barrier with a thread
//                             that called it. Every block must call it
//   grid_dependents_start()   this block allows the next kernel to begin. The next kernel begins
//                             when every block has called this or ended. If no block calls it, the
//                             next kernel begins after the grid's end
//
// A wait covers all earlier kernels: the previous kernel either began after their end or has itself waited for
// them. So the first kernel of a call may be launched as a dependent of a kernel that the caller launched.
//
//   launch(partial, ...);            launch_dependent(reduce, ...);
//   // partial                       // reduce
//   grid_dependents_start();         ... work that reads no result of partial ...
//   ... write ...                    grid_dependency_wait();
//
// On the CPU the second kernel runs after the first. A block that ends without having waited is reported; a
// read before the wait is not.
#pragma once

#include "kernels/primitives/launch.h"

#ifndef __CUDACC__
#include "kernels/executor/hopper.h"
#endif

namespace attn {

template <class... P>
attn_status launch_dependent(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes,
                             const attn_env* env, std::type_identity_t<P>... arguments) {
  return launch_as(true, kernel, grid, block, shared_bytes, env, arguments...);
}

#ifdef __CUDACC__

// Before sm_90 there are no dependent launches, so nothing calls these functions and their bodies are empty.
__device__ __forceinline__ void grid_dependency_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void grid_dependents_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#else

inline void grid_dependency_wait(ATTN_HERE) { simt::grid_dependency_wait(here); }
inline void grid_dependents_start() {}

#endif

}  // namespace attn
