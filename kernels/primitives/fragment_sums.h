// Sums of C fragments (matrix.h) in global memory. Several blocks add to them. A fragment of 16x8 sums is 128
// floats. Their order depends on the back end: on each one a warp adds a fragment in as few transactions as
// possible.
//
//   add_fragment(sums, c)        sums[fragment_place(lane, e)] += c[e], each atomically, blocks in any order
//   load_fragment(sums, c)       c[e] = sums[fragment_place(lane, e)]
//   fragment_place(lane, e)      the index of a lane's value e
//
// `sums` is aligned to 512 bytes. All lanes of a warp call with the same address. Read the sums only after this
// kernel has ended.
#pragma once

#include "kernels/primitives/atomic.h"
#include "kernels/primitives/warp.h"

namespace attn {

// Four floats that a thread reads or writes at once.
struct alignas(16) Floats {
  float at[4];
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900

__device__ __forceinline__ constexpr int fragment_place(int lane, int e) { return 32 * e + lane; }

__device__ __forceinline__ void add_fragment(float* sums, const float (&c)[4]) {
#pragma unroll
  for (int e = 0; e < 4; ++e) ::atomicAdd(sums + fragment_place(lane_id(), e), c[e]);
}

__device__ __forceinline__ void load_fragment(const float* sums, float (&c)[4]) {
#pragma unroll
  for (int e = 0; e < 4; ++e) c[e] = sums[fragment_place(lane_id(), e)];
}

#else

__host__ __device__ __forceinline__ constexpr int fragment_place(int lane, int e) { return 4 * lane + e; }

__device__ __forceinline__ void add_fragment(float* sums, const float (&c)[4]) {
#ifdef __CUDACC__
  asm volatile(
      "red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(sums + fragment_place(lane_id(), 0)),
      "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3])
      : "memory");
#else
  for (int e = 0; e < 4; ++e) atomic_add(sums + fragment_place(lane_id(), e), c[e]);
#endif
}

__device__ __forceinline__ void load_fragment(const float* sums, float (&c)[4]) {
  const Floats all = *reinterpret_cast<const Floats*>(sums + fragment_place(lane_id(), 0));
#pragma unroll
  for (int e = 0; e < 4; ++e) c[e] = all.at[e];
}

#endif

}  // namespace attn
