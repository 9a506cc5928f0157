// The executor's bodies of the primitives for sm_90a. Kernels use kernels/primitives/mbarrier.h, tma.h, wgmma.h
// and warpgroup.h, which document them. This header says what the executor checks and what a schedule chooses.
// Misuse is an ASYNC report unless another kind is named.
#pragma once

#include "kernels/executor/executor.h"

namespace simt {

// --- mbarriers: eight bytes of shared memory each (mbarrier.cc) ---
//
// Reported:
// - use of a barrier that is not initialised yet or was overwritten
// - use by another thread before the initialising thread called mbarrier_init_fence()
// - a second initialisation
// - more arrivals than the count while bytes are outstanding; more bytes than announced
// - bytes that land in another phase than they were sent in
// - a phase that ends while a thread that waited for the previous phase has not continued: it would miss this
// phase
// - a block that ends in the middle of a phase (DEADLOCK)
// The report of a deadlock says how many arrivals and bytes the barrier lacks.
//
// For ThreadSanitizer, an arrival is ordered before the accesses that follow a wait for its phase, and so is a
// load that completes on the barrier. The kernel must order the initialisation by other means.
SIMT_EXPORT void mbarrier_init(void* barrier, uint32_t count, Place here);
SIMT_EXPORT void mbarrier_init_fence(Place here);
SIMT_EXPORT void mbarrier_expect(void* barrier, uint32_t bytes, Place here);  // announces, then arrives
SIMT_EXPORT void mbarrier_arrive(void* barrier, Place here);
SIMT_EXPORT void mbarrier_wait(void* barrier, uint32_t parity, Place here);

// --- Barriers of cuda::pipeline (copy.cc, mbarrier.cc) ---
//
// They are mbarriers that may be initialised again, and that a block may leave in the middle of a phase. A
// thread that commits its copies (cp.async) arrives when they have landed: early, at once, or late, when no
// thread of the block can go on otherwise. For ThreadSanitizer the commit is ordered before the accesses that
// follow a wait for its phase.
SIMT_EXPORT void pipeline_barrier_init(void* barrier, uint32_t count, Place here);
SIMT_EXPORT void copy_commit_to(void* barrier, Place here);

// --- Dependent launches (launch.cc) ---
//
// Reported: a block of a dependent launch ends without a wait, or loads a box before any of its threads has
// waited. Launches run one after the other here, so other reads before the wait are not seen.
SIMT_EXPORT void grid_dependency_wait(Place here);

// --- Boxes of tensors (tensor_copy.cc) ---
//
// A load lands early, when it is issued, or late, when no thread of the block can go on otherwise. Late loads
// land in the order in which they were sent, in the opposite order or in any order, as the schedule says. Until
// a late load lands, its destination is poison. A late store reads shared memory and writes the tensor when its
// thread waits for it. It writes the last chunk of 16 bytes of a row whole, also past the tensor's columns.
//
// Stores and products see a thread's writes to shared memory only after that thread has called
// fence_proxy_async(). Primitives that write 16 bytes call generic_write16(), and copies of 16 bytes that land
// are recorded too. It is reported if a box or an operand of a product touches these bytes before the fence.
// Writes through plain pointers are not seen. A missing barrier after the fence is not checked here; schedules
// and ThreadSanitizer show it.
//
// Reported:
// - an address that is not a multiple of 128 (ALIGNMENT)
// - a box that is not within an array (SHARED)
// - a tensor that is not where its map says, a chunk that a store writes past it (ADDRESS, with
// AddressSanitizer)
// - a destination that was written before the load landed
// - a load that no thread waited for; a store that its thread did not commit or wait for

// A tensor as the copy engine sees it. Dimension 0 is the innermost and is dense. stride[d] is the stride of
// dimension d + 1, in bytes. The box is columns x rows.
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
// Records that a primitive wrote 16 bytes of shared memory for a lane of the caller's warp.
SIMT_EXPORT void generic_write16(const void* shared, int lane);

// --- Products of a warpgroup (wgmma.cc) ---
//
// A thread that issues a product records it and continues. A thread waits only in wgmma_wait, which ends when
// all 128 threads have issued the products that it waits for. From a product to its wait the accumulators hold
// poison. Operands in shared memory and in registers are read early, when the last thread has issued the
// product, or late, when no thread of the block can go on unless a product completes. So `d` and `a` must keep
// their addresses until the wait. Sums are those of mma_columns (mma.h), with k ascending.
//
// Reported:
// - threads that disagree about a product (DIVERGENCE)
// - an operand that is not within an array (SHARED)
// - a product without a fence since the thread's last wait or commit, unless it has no operand in registers
//   and its accumulators are in flight already
// - accumulators that were written while in flight
// - a product that was never waited for
// Accumulators that are read too early hold NaNs or old numbers.

// An operand of wgmma in shared memory: the content of a descriptor.
struct WgmmaOperand {
  const void* at;
  uint32_t leading, stride;  // bytes
};
// One product of a warpgroup: D(64xN) = A(64x16) B(16xN) + (accumulate ? D : 0).
// Before the swizzle of the address, element (k, n) of B is at
//   at + n / 8 * stride + n % 8 * 128 + 2 k                               if B is not transposed
//   at + n / 64 * leading + k / 8 * stride + k % 8 * 128 + n % 64 * 2     if it is
// A in shared memory has the layout of a B that is transposed if A is, with M in place of N.
struct Wgmma {
  float* d;           // the N / 2 accumulators of the calling thread
  const uint32_t* a;  // four words of the calling thread; null if A is a_shared
  WgmmaOperand a_shared, b;
  uint32_t n;
  bool bf16;
  bool a_transposed;  // A lies in shared memory with M innermost
  bool b_transposed;  // B lies with N innermost
  bool accumulate;
};
SIMT_EXPORT void wgmma(const Wgmma& product, Place here);
SIMT_EXPORT void wgmma_fence(Place here);
SIMT_EXPORT void wgmma_commit(Place here);
SIMT_EXPORT void wgmma_wait(uint32_t groups_left, Place here);

// setmaxnreg of a warpgroup. Reported: warps of a warpgroup ask for different numbers, or only some of them ask
// (DIVERGENCE); the warpgroups ask for more registers than the block can be launched with (DEADLOCK).
SIMT_EXPORT void set_registers(uint32_t count, bool increase, Place here);

// True in one lane of the warp. The schedule's seed chooses the lane for a whole launch.
struct Elect {
  static constexpr const char* kName = "elect_one";
  bool elected;
  SIMT_SLOTS static void run(Lanes<Elect> lanes, const Meeting& meeting) {
    int elected = meeting.geometry->elected_lane;
    while (!(meeting.members >> elected & 1)) elected = (elected + 1) % 32;
    for (int lane = 0; lane < 32; ++lane) {
      if (meeting.members >> lane & 1) lanes[lane].elected = lane == elected;
    }
  }
};
inline bool elect_one(Place here) {
  Elect elect{false};
  meet(elect, kFullMask, here);
  return elect.elected;
}

}  // namespace simt
