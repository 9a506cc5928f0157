// The back end that is being compiled for. The other headers of this folder test whether __CUDACC__ is defined,
// and so does kernels/cuda_source/adapter/backend.h. Kernels need not test it; a kernel with a path for one
// back end tests kBackend.
//
// On the CPU, functions in which threads meet take the caller's source location as their last parameter, so
// that a report can name it. ATTN_HERE declares this parameter; on CUDA it expands to nothing:
//
//   __device__ void cta_sync(ATTN_HERE);
//   __device__ float shfl(float value, int lane ATTN_AND_HERE);
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/attention.h"

#ifdef __CUDACC__
#define ATTN_HERE
#define ATTN_AND_HERE
#else
#include "kernels/executor/cuda_words.h"
#define ATTN_HERE ::simt::Place here = ::simt::Place::now()
#define ATTN_AND_HERE , ATTN_HERE
#endif

namespace attn {

// The back end that this translation unit is compiled for: a descriptor's `backend`.
#ifdef __CUDACC__
inline constexpr attn_backend kBackend = ATTN_CUDA;
#else
inline constexpr attn_backend kBackend = ATTN_CPU;
#endif

}  // namespace attn
