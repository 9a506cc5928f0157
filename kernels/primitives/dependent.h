// One kernel close behind another on a stream: the second is started before the first
// has ended, and waits within (sm_90).
//
//   launch_dependent(...)     launch(), but the kernel before it on env->stream may still be
//                             running when this one begins
//   grid_dependency_wait()    returns when the kernel before has ended and all that it wrote is
//                             visible. A thread must call it before it reads or overwrites
//                             memory of earlier kernels, or must meet a thread that called it.
//                             Every block must call it
//   grid_dependents_start()   allows the next kernel to begin, as far as this block is
//                             concerned. If a grid never calls it, the next kernel begins
//                             after the grid's end
//
// A thread that has waited has waited for all earlier kernels: the kernel before either began after their
// end, or has waited for them itself. So the first kernel of a call may be a dependent of a kernel that its
// caller launched.
//
//   launch(partial, ...);            launch_dependent(reduce, ...);
//   // partial                       // reduce
//   grid_dependents_start();         ... work that reads no result of partial ...
//   ... write ...                    grid_dependency_wait();
//
// On the CPU the second kernel runs after the first, and a block that ends without having
// waited is reported. A read before the wait is not reported.
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

// Before sm_90 there are no dependents: these functions are not called, and are empty.
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
