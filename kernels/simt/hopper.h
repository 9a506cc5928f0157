// What the words of sm_90a ask of the CPU executor: the bodies behind
// kernels/primitives/mbarrier.h, tma.h, wgmma.h and warpgroup.h, which say what
// each of them means. Device code uses those.
#ifndef ATTNFUZZ_KERNELS_SIMT_HOPPER_H_
#define ATTNFUZZ_KERNELS_SIMT_HOPPER_H_

#include "kernels/simt/simt.h"

namespace simt {

// Barriers of transactions: eight bytes of shared memory each.
SIMT_EXPORT void mbarrier_init(void* barrier, uint32_t count, Place here);
SIMT_EXPORT void mbarrier_init_fence(Place here);
SIMT_EXPORT void mbarrier_expect(void* barrier, uint32_t bytes, Place here);  // announces, then arrives
SIMT_EXPORT void mbarrier_arrive(void* barrier, Place here);
SIMT_EXPORT void mbarrier_wait(void* barrier, uint32_t parity, Place here);

// A tensor as the copy engine sees it. Dimension 0 is the innermost, dense;
// stride[d] is that of dimension d + 1, in bytes. The box is columns x rows.
struct TensorMap {
  void* base;
  int64_t dim[4];
  int64_t stride[3];
  uint32_t columns, rows;
  uint32_t element;  // bytes
};
SIMT_EXPORT void tma_load(void* shared, const TensorMap& map, void* barrier, const int32_t (&at)[4],
                          Place here);
SIMT_EXPORT void tma_store(const TensorMap& map, const void* shared, const int32_t (&at)[4], Place here);
SIMT_EXPORT void bulk_commit(Place here);
SIMT_EXPORT void bulk_wait_read(uint32_t groups_left, Place here);
SIMT_EXPORT void fence_proxy_async(Place here);

// An operand of wgmma in shared memory: what a descriptor holds.
struct WgmmaOperand {
  const void* at;
  uint32_t leading, stride;  // bytes
};
// One product of a warpgroup: D(64xN) = A(64x16) B(16xN) + (accumulate ? D : 0).
struct Wgmma {
  float* d;           // N / 2 of the calling thread
  const uint32_t* a;  // four of the calling thread, or null: a_shared
  WgmmaOperand a_shared, b;
  uint32_t n;
  bool bf16;
  bool b_transposed;  // B lies with N innermost
  bool accumulate;
};
SIMT_EXPORT void wgmma(const Wgmma& product, Place here);
SIMT_EXPORT void wgmma_fence(Place here);
SIMT_EXPORT void wgmma_commit(Place here);
SIMT_EXPORT void wgmma_wait(uint32_t groups_left, Place here);

// True in one lane of the warp.
SIMT_EXPORT bool elect_one(Place here);
// setmaxnreg of a warpgroup.
SIMT_EXPORT void set_registers(uint32_t count, bool increase, Place here);

}  // namespace simt

#endif  // ATTNFUZZ_KERNELS_SIMT_HOPPER_H_
