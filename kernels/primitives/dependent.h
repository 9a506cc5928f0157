// One kernel close behind another on a stream: the second is started before the first
// has ended, and waits within (sm_90).
//
//   launch_dependent(...)     as launch(): the kernel launched before on env->stream may
//                             still be running when this one begins
//   grid_dependency_wait()    returns when that one has ended; all it wrote is visible.
//                             Whoever reads, or overwrites, what earlier kernels use calls it
//                             first, or meets one who did. Every block comes here
//   grid_dependents_start()   of this block's making, dependents may begin. A grid that
//                             never says so is waited for whole
//
// Whoever has waited has waited for all that came before: the kernel waited for was either begun when
// that had ended, or had waited for it itself. So the first kernel of a call may be a dependent, of
// whatever its caller launched before.
//
//   launch(partial, ...);            launch_dependent(reduce, ...);
//   // partial                       // reduce
//   grid_dependents_start();         ... what reads nothing of partial's ...
//   ... write ...                    grid_dependency_wait();
//
// On the CPU the second kernel runs after the first, and a block that ends without having
// waited is reported. What it read before it waited is not seen.
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

// Before sm_90 there are no dependents: these words are not reached, and compile to nothing.
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
