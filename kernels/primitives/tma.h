// Copies tiles between global and shared memory by the copy engine, TMA (sm_90).
//
// A TensorMap describes a 4-D tensor of 16-bit elements. Dimension 0 is the innermost. The map is made on the
// host and passed to a kernel as a const __grid_constant__ parameter. The unit of a copy is a box: 64 columns
// of dimension 0 by `rows` of dimension 1.
//
//   tensor_map_fits(...)          true if the copy engine can take the tensor
//   make_tensor_map(...)          makes the map, on the host; says why it failed
//
//   tma_load(shared, map, bar, {c0, c1, c2, c3})
//                     starts to copy the box whose first element has these coordinates;
//                     elements outside of the tensor become zeros. When the box has arrived,
//                     `bar` counts rows * 128 bytes, including the zeros
//   tma_load_if(whether, ...)  tma_load() if `whether` is true, without a branch: a branch would stop
//                     ptxas from pipelining wgmma
//   tma_load_once(...)  tma_load() for data that is not read again: the L2 cache evicts it first
//   tma_store(map, shared, {c0, c1, c2, c3})
//                     copies in the other direction. Elements outside of the tensor are not
//                     written, but a row's last chunk is always written whole: make rows whole
//                     16-byte chunks
//   bulk_commit()     makes a group of this thread's stores
//   bulk_wait_read<N>()  returns when all but the N youngest groups have read their
//                     shared memory, which may then be written again
//   fence_proxy_async()  makes all earlier writes of this thread to shared memory visible to
//                     later tma_store and wgmma of this thread, and of others after a barrier
//   tma_prefetch(map) a hint to load the map
//
// A row of a box is 128 bytes in shared memory. Within each 1024 bytes, a chunk's position in its row is its
// number XORed with the number of the row: address a goes to a ^ ((a >> 7 & 7) << 4). Boxes begin at multiples
// of 1024 bytes.
//
//   mbarrier_expect(full, 64 * 128);
//   tma_load(tile, map, full, {column, position, head, batch});
#pragma once

#include <stdio.h>

#include "kernels/primitives/mbarrier.h"
#include "kernels/primitives/types.h"

#ifdef __CUDACC__
#include <cudaTypedefs.h>
#endif

namespace attn {

// Columns of a box: one swizzled row of 16-bit elements.
inline constexpr int kBoxColumns = 64;

#ifdef __CUDACC__
using TensorMap = CUtensorMap;
#else
using TensorMap = simt::TensorMap;
#endif

struct Coordinates {
  int32_t at[4];
};

// A tensor of 16-bit elements for a map. Strides are in elements; the stride of dimension 0 is 1.
struct TensorView {
  void* base;
  int64_t dim[4];
  int64_t stride[3];  // of dimensions 1 to 3; not read for a dimension of one element
};

// The stride in bytes for the map. A dimension of one element may have any stride, so a legal one replaces it.
inline int64_t map_stride_bytes(const TensorView& view, int d) {
  return view.dim[d] > 1 ? view.stride[d - 1] * 2 : (view.dim[0] * 2 + 15) / 16 * 16;
}

inline bool tensor_map_fits(const TensorView& view) {
  if (view.base == nullptr || reinterpret_cast<uintptr_t>(view.base) % 16 != 0) return false;
  for (int d = 0; d < 4; ++d) {
    if (view.dim[d] < 1 || view.dim[d] > int64_t{1} << 31) return false;
  }
  for (int d = 1; d < 4; ++d) {
    if (view.dim[d] > 1 && (view.stride[d - 1] < 1 || view.stride[d - 1] >= int64_t{1} << 38)) return false;
    const int64_t bytes = map_stride_bytes(view, d);
    if (bytes % 16 != 0 || bytes < view.dim[0] * 2) return false;
  }
  return true;
}

// `rows` of a box: 1 to 256. On failure `reason` says why.
template <class T>
inline bool make_tensor_map(TensorMap* map, const TensorView& view, int rows, char* reason,
                            size_t reason_size) {
  if (!tensor_map_fits(view) || rows < 1 || rows > 256) {
    snprintf(reason, reason_size, "the copy engine cannot take this tensor: see kernels/primitives/tma.h");
    return false;
  }
#ifdef __CUDACC__
  // The runtime finds the driver's function, so that the library need not be linked with libcuda.
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess || found == nullptr) {
    cudaGetLastError();
    snprintf(reason, reason_size, "the driver has no cuTensorMapEncodeTiled: %s", cudaGetErrorName(error));
    return false;
  }
  cuuint64_t dims[4], strides[3];
  for (int d = 0; d < 4; ++d) dims[d] = static_cast<cuuint64_t>(view.dim[d]);
  for (int d = 1; d < 4; ++d) strides[d - 1] = static_cast<cuuint64_t>(map_stride_bytes(view, d));
  const cuuint32_t box[4] = {kBoxColumns, static_cast<cuuint32_t>(rows), 1, 1}, steps[4] = {1, 1, 1, 1};
  const CUresult status = reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(found)(
      map, sizeof(T) == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16 : CU_TENSOR_MAP_DATA_TYPE_UINT32, 4, view.base, dims,
      strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status == CUDA_SUCCESS) return true;
  snprintf(reason, reason_size, "cuTensorMapEncodeTiled: error %d", static_cast<int>(status));
  return false;
#else
  *map = {view.base, {}, {}, kBoxColumns, static_cast<uint32_t>(rows), sizeof(T)};
  for (int d = 0; d < 4; ++d) map->dim[d] = view.dim[d];
  for (int d = 1; d < 4; ++d) map->stride[d - 1] = map_stride_bytes(view, d);
  return true;
#endif
}

#ifdef __CUDACC__

__device__ __forceinline__ void tma_load(void* shared, const TensorMap& map, Mbarrier* bar,
                                         const Coordinates& c) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
      "%6}], "
      "[%2];" ::"r"(shared_address(shared)),
      "l"(&map), "r"(shared_address(bar)), "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]), "r"(c.at[3])
      : "memory");
}

__device__ __forceinline__ void tma_load_if(bool whether, void* shared, const TensorMap& map, Mbarrier* bar,
                                            const Coordinates& c) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %7, 0;\n"
      "@p cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];\n"
      "}\n" ::"r"(shared_address(shared)),
      "l"(&map), "r"(shared_address(bar)), "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]), "r"(c.at[3]),
      "r"(static_cast<int>(whether))
      : "memory");
}

__device__ __forceinline__ void tma_load_once(void* shared, const TensorMap& map, Mbarrier* bar,
                                              const Coordinates& c) {
  uint64_t policy;  // the same for all copies: not volatile, so that it is made once
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
      "{%3, "
      "%4, %5, %6}], [%2], %7;" ::"r"(shared_address(shared)),
      "l"(&map), "r"(shared_address(bar)), "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]), "r"(c.at[3]), "l"(policy)
      : "memory");
}

__device__ __forceinline__ void tma_store(const TensorMap& map, const void* shared, const Coordinates& c) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
      "r"(shared_address(shared)), "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]), "r"(c.at[3])
      : "memory");
}

__device__ __forceinline__ void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

template <int N>
__device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void tma_prefetch(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

#else

inline void tma_load(void* shared, const TensorMap& map, Mbarrier* bar, const Coordinates& c ATTN_AND_HERE) {
  simt::tma_load(shared, map, bar, c.at, here);
}
inline void tma_load_if(bool whether, void* shared, const TensorMap& map, Mbarrier* bar,
                        const Coordinates& c ATTN_AND_HERE) {
  if (whether) simt::tma_load(shared, map, bar, c.at, here);
}
inline void tma_load_once(void* shared, const TensorMap& map, Mbarrier* bar,
                          const Coordinates& c ATTN_AND_HERE) {
  simt::tma_load(shared, map, bar, c.at, here);
}
inline void tma_store(const TensorMap& map, const void* shared, const Coordinates& c ATTN_AND_HERE) {
  simt::tma_store(map, shared, c.at, here);
}
inline void bulk_commit(ATTN_HERE) { simt::bulk_commit(here); }
template <int N>
inline void bulk_wait_read(ATTN_HERE) {
  simt::bulk_wait_read(N, here);
}
inline void fence_proxy_async(ATTN_HERE) { simt::fence_proxy_async(here); }
inline void tma_prefetch(const TensorMap&) {}

#endif

}  // namespace attn
