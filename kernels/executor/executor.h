// The interface between running device code and the CPU executor.
//
// A launch runs its blocks one after the other, and each CUDA thread of a block as a fiber, on one OS thread.
// Kernels live in shared modules. The executor is linked into the program that loads them, and only these
// functions cross between the two. Kernels do not call them directly: they use kernels/primitives or plain CUDA
// (kernels/cuda_source), which are built on them.
//
// A thread runs until it waits at a barrier, or for the other lanes in a collective of its warp. There is no
// implicit lock-step. In a collective every lane deposits a pointer to its argument. The last lane to arrive
// computes the results of all lanes and continues:
//
//   struct Ballot {
//     static constexpr const char *kName = "ballot";
//     bool predicate;
//     uint32_t result;
//     static void run(simt::Lanes<Ballot> lanes, const simt::Meeting &meeting) { ... }
//   };
//   Ballot ballot{predicate, 0};
//   simt::meet(ballot, 0xffffffffu, here);  // ballot.result is set
//
// A fault ends the block: it is reported once to env->report, no thread of the block continues, and the launch
// returns ATTN_FAULT.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/attention.h"

#define SIMT_EXPORT __attribute__((visibility("default")))

// The sanitizer that this translation unit is compiled for: 0 or 1. g++ has no __has_feature.
#ifdef __has_feature
#define SIMT_ASAN __has_feature(address_sanitizer)
#define SIMT_MSAN __has_feature(memory_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define SIMT_ASAN 1
#define SIMT_MSAN 0
#else
#define SIMT_ASAN 0
#define SIMT_MSAN 0
#endif

// Marks functions that read or write the arguments of other lanes of a collective. The lanes wait meanwhile, so
// these accesses are safe. They order no other accesses, so ThreadSanitizer must not see them.
#define SIMT_SLOTS __attribute__((no_sanitize("thread")))

namespace simt {

// The place of an operation in the kernel's source.
struct Place {
  const char* file;
  int line;
  // now() as a default argument names the caller's line.
  static constexpr Place now(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

struct Index {
  unsigned x, y, z;
};

// The data that all threads of a block share.
struct Geometry {
  Index block;
  Index block_dim;
  Index grid_dim;
  bool mma_truncates;  // see schedule.h
  bool copies_early;
  bool products_early;
  int elected_lane;  // the lane that elect_one() elects in a whole warp
};

// The part of a thread that device code reads directly, because a call would cost more.
struct Thread {
  Index index;
  uint32_t linear;  // x fastest; lane = linear % 32, warp = linear / 32
  const Geometry* geometry;
};

// The running thread; null outside of kernels.
SIMT_EXPORT extern constinit thread_local Thread* current __attribute__((tls_model("initial-exec")));

// The device whose arithmetic the running launch has (arithmetic.h). Null outside of kernels, and with
// ATTN_ARITHMETIC_ANY.
namespace device {
struct Model;
}
SIMT_EXPORT extern constinit thread_local const device::Model* arithmetic
    __attribute__((tls_model("initial-exec")));

inline constexpr uint32_t kFullMask = 0xffffffffu;

// A collective at the moment when all its lanes have arrived.
struct Meeting {
  void* const* arguments;  // indexed by lane; set for members only
  uint32_t members;
  Place here;
  const Geometry* geometry;
};

template <class Op>
struct Lanes {
  void* const* arguments;
  SIMT_SLOTS Op& operator[](int lane) const { return *static_cast<Op*>(arguments[lane]); }
};

struct WarpOp {
  const char* name;
  void (*run)(const Meeting& meeting);
  bool orders_memory;  // true for __syncwarp, false for shuffles
};

// True if the Op has `static constexpr bool kOrdersMemory = true`.
template <class Op>
constexpr bool orders_memory() {
  if constexpr (requires { Op::kOrdersMemory; }) {
    return Op::kOrdersMemory;
  } else {
    return false;
  }
}

// Waits for all lanes of `mask` that have not left the kernel. They must pass the same op, mask and place.
SIMT_EXPORT void meet(const WarpOp& op, void* argument, uint32_t mask, Place here);

template <class Op>
inline void meet(Op& argument, uint32_t mask, Place here) {
  static constexpr WarpOp kOp{Op::kName,
                              [](const Meeting& meeting) { Op::run(Lanes<Op>{meeting.arguments}, meeting); },
                              orders_memory<Op>()};
  meet(kOp, &argument, mask, here);
}

// Barrier 0..15. `threads` is the number of threads that arrive or wait. Without `wait` the thread only arrives
// and continues.
inline constexpr uint32_t kWholeBlock = 0xffffffffu;
SIMT_EXPORT void barrier(uint32_t id, uint32_t threads, bool wait, Place here);

// A barrier of the block that counts the votes of its threads.
struct BlockVote {
  int yes, no;
};
SIMT_EXPORT BlockVote block_vote(bool predicate, Place here);

// Stores the bit set of the active lanes. Waits until every other lane of the warp has come to this place, has
// left, waits elsewhere or polls; the active lanes are those that have come. A GPU may name fewer.
SIMT_EXPORT void active_lanes(uint32_t* lanes, Place here);

// Lets other threads run before this one goes on. A polling loop needs this.
SIMT_EXPORT void yield();

// An asynchronous copy of 16 bytes. copy.cc says when it lands.
SIMT_EXPORT void copy_async16(void* shared, const void* global, bool valid, Place here);
// An asynchronous copy of 4, 8 or 16 bytes: the first `given` are copied, and the rest become zeros.
SIMT_EXPORT void copy_async(void* shared, const void* global, uint32_t bytes, uint32_t given, Place here);
SIMT_EXPORT void copy_commit();
SIMT_EXPORT void copy_wait(uint32_t groups_left);

// Shared memory is given out in order. Every thread walks the same sequence with a cursor of its own and gets
// the same addresses.
struct ArenaCursor {
  size_t offset = 0;  // the offset on a GPU, which has no redzones
  uint32_t count = 0;
};
SIMT_EXPORT void* carve(ArenaCursor& cursor, size_t bytes, size_t align, Place here);

// All of the launch's dynamic shared memory as one array.
SIMT_EXPORT void* dynamic_shared(Place here);

// __cvta_generic_to_shared and its inverse: 32 bits for an address in the dynamic array or in a __shared__ one.
// Any other address is reported.
SIMT_EXPORT uint32_t shared_offset(const void* pointer, Place here);
SIMT_EXPORT void* shared_pointer(uint32_t offset, Place here);

// Ends the block with a report about `thread`. Only device code may call it.
[[noreturn]] SIMT_EXPORT void fault(attn_report_kind kind, const Thread* thread, Place here, const char* format,
                                    ...) __attribute__((format(printf, 4, 5)));
// The thread in lane `lane` of the caller's warp.
SIMT_EXPORT const Thread* lane_of_warp(int lane);

struct Launch {
  Index grid;
  Index block;
  size_t shared_bytes;
  const attn_env* env;
  void (*entry)(const void* arguments);  // calls the kernel, once for each thread
  const void* arguments;
  const void* kernel;     // the kernel, or any address in its module
  bool opted_in = false;  // cudaFuncSetAttribute allows the kernel more than 48 KiB of shared memory
};

// The bytes of static __shared__ arrays in a kernel itself, without those of functions that it calls.
SIMT_EXPORT size_t static_shared(const void* kernel);

// Runs all blocks and returns ATTN_OK, or ATTN_FAULT after a report. The sizes must be within CUDA's limits,
// which attn::launch checks on both back ends.
SIMT_EXPORT attn_status launch(const Launch& launch);

// Launches a kernel that on a device may begin before the last launch has ended. Each of its blocks must call
// grid_dependency_wait() (hopper.h).
SIMT_EXPORT attn_status launch_dependent(const Launch& launch);

}  // namespace simt
