// Divides a block's dynamic shared memory into arrays.
//
//   // device: every thread makes its own arena and carves the same arrays
//   SharedArena arena;
//   float *row = arena.carve<float>(64);
//   F16 *tile = arena.carve<F16>(64 * 64, 128);
//
//   // host: enough for these arrays, including the bytes lost to alignment
//   size_t bytes = shared_bytes<float>(64) + shared_bytes<F16>(64 * 64, 128);
//
// Alignments are powers of two from 16 (or alignof(T)) to 1024. The contents
// are undefined at the start of a block; on the CPU they are NaNs, arrays have
// red zones between them, and a carve beyond the launch's bytes is reported.
#pragma once

#include "kernels/primitives/platform.h"

// For plain CUDA code: all of the launch's dynamic shared memory as one array. It replaces `extern __shared__ T
// name[];`, which a host compiler cannot translate.
#ifdef __CUDACC__
#define ATTN_DYNAMIC_SHARED(T, name) extern __shared__ T name[]
#else
#define ATTN_DYNAMIC_SHARED(T, name) \
  T* const name = static_cast<T*>(::simt::dynamic_shared(::simt::Place::now()))
#endif

namespace attn {

template <class T>
__host__ __device__ constexpr size_t shared_bytes(size_t count, size_t align = 16) {
  return count * sizeof(T) + (align - 1);
}

#ifdef __CUDACC__

class SharedArena {
 public:
  template <class T>
  __device__ __forceinline__ T* carve(size_t count, size_t align = 16) {
    extern __shared__ __align__(1024) unsigned char attn_dynamic_shared[];
    const uint32_t at = (offset_ + static_cast<uint32_t>(align) - 1) & ~(static_cast<uint32_t>(align) - 1);
    offset_ = at + static_cast<uint32_t>(count * sizeof(T));
    return reinterpret_cast<T*>(attn_dynamic_shared + at);
  }

 private:
  uint32_t offset_ = 0;
};

#else

class SharedArena {
 public:
  template <class T>
  T* carve(size_t count, size_t align = 16 ATTN_AND_HERE) {
    return static_cast<T*>(simt::carve(cursor_, count * sizeof(T), align, here));
  }

 private:
  simt::ArenaCursor cursor_;
};

#endif

}  // namespace attn
