// What the words of sm_90a ask of the CPU executor: the bodies behind
// kernels/primitives/mbarrier.h, tma.h, wgmma.h and warpgroup.h, which say what
// each of them means. Device code uses those. Here is said what is checked, and
// what a schedule chooses. Misuse is an ASYNC report where no other is named.
#pragma once

#include "kernels/executor/executor.h"

namespace simt {

// --- Barriers of transactions: eight bytes of shared memory each (mbarrier.cc) ---
//
// Reported: use of what is no barrier (not initialised yet, or overwritten); use by
// another thread before the initialising one called mbarrier_init_fence();
// initialising twice; more arrivals than the count while bytes are outstanding; more
// bytes than announced; bytes that land in another phase than they were sent in; a
// phase that ends while a thread that waited for the one before has not gone on (it
// would miss it); a block that ends in the middle of a phase (DEADLOCK). What waits
// for ever at a barrier is told with what the barrier lacks.
//
// In ThreadSanitizer's lane an arrival comes before what follows a wait for its
// phase, and so does a load that was sent to the barrier. That it was initialised
// must be ordered by other means.
SIMT_EXPORT void mbarrier_init(void* barrier, uint32_t count, Place here);
SIMT_EXPORT void mbarrier_init_fence(Place here);
SIMT_EXPORT void mbarrier_expect(void* barrier, uint32_t bytes, Place here);  // announces, then arrives
SIMT_EXPORT void mbarrier_arrive(void* barrier, Place here);
SIMT_EXPORT void mbarrier_wait(void* barrier, uint32_t parity, Place here);

// --- Kernels close behind one another (launch.cc) ---
//
// Reported: a block of a dependent launch that ends without having waited, or loads a box before
// any of its threads has. Launches run one after the other here: what else is read before the
// wait is not seen.
SIMT_EXPORT void grid_dependency_wait(Place here);

// --- Boxes of tensors (tensor_copy.cc) ---
//
// A load lands early, where it is sent, or late: when no thread of the block can go
// on otherwise, the first sent first, the last first, or any, as the schedule's order
// is. A late store reads shared memory and writes the tensor when its thread waits for
// it. Until a late load lands its destination is poison.
//
// What threads themselves wrote to shared memory is seen by stores and products only
// after fence_proxy_async() by the thread that wrote. Words that write say so with
// generic_write16(); a box sent from such 16 bytes, or onto them, or a product's
// operand in them, is reported while they lack the fence. Writes through plain
// pointers are not seen, nor is it checked here that a barrier follows the fence:
// schedules and ThreadSanitizer show that.
//
// Reported: an address that is not a multiple of 128 (ALIGNMENT); a box that is not
// within an array (SHARED); a tensor that is not where its map says (ADDRESS, in
// AddressSanitizer's lane); a destination that was written before the load landed; a
// load that nobody waited for; a store that its thread did not commit or wait for.

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
// A word wrote 16 bytes of shared memory for a lane of the caller's warp.
SIMT_EXPORT void generic_write16(const void* shared, int lane);

// --- Products of a warpgroup (wgmma.cc) ---
//
// A thread that issues a product notes it and runs on: threads meet at the wait
// alone, which goes on when all 128 have issued what it waits for. From a product to
// its wait the accumulators hold poison. Operands, in shared memory and in registers,
// are read early, when the last thread has issued the product, or late: when no thread
// of the block can go on unless a product is done that is waited for. So `d` and `a`
// must stay where they are until the wait; sums are those of mma_columns (mma.h), k
// ascending.
//
// Reported: threads that say different things of one product (DIVERGENCE); an operand
// that is not within an array (SHARED); a product without a fence since the thread's
// last wait or commit, unless it has no operand in registers and its accumulators are
// under way already; accumulators written while under way; a product that was never
// waited for. What is read too early shows as NaNs or old numbers.

// An operand of wgmma in shared memory: what a descriptor holds.
struct WgmmaOperand {
  const void* at;
  uint32_t leading, stride;  // bytes
};
// One product of a warpgroup: D(64xN) = A(64x16) B(16xN) + (accumulate ? D : 0).
// Before the swizzle, which is of the address, element (k, n) of B is at
//   at + n / 8 * stride + n % 8 * 128 + 2 k                               and transposed, at
//   at + n / 64 * leading + k / 8 * stride + k % 8 * 128 + n % 64 * 2
// and A as B is that is not transposed.
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

// setmaxnreg of a warpgroup. Reported: warps of one that ask for different numbers or
// not all of them (DIVERGENCE); in the end, more than a multiprocessor has (DEADLOCK).
SIMT_EXPORT void set_registers(uint32_t count, bool increase, Place here);

// True in one lane of the warp: which, the schedule's seed says for a whole launch.
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
