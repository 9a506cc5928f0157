// The executor's own view of a running block. Only the sources of kernels/executor include it.
//
// A lane is in one of four states:
//
//   running   one lane at a time
//   ready     its bit is in Warp::ready
//   waiting   in a collective (Group::arrived), at a barrier (Barrier::waiting), or in active_lanes() (Warp::gathering)
//   done
//
// Warp::ready and Block::ready_warps are bit sets, so that finding the next lane takes two instructions in
// every order of the schedule.
#pragma once

#include <deque>
#include <vector>

#include "kernels/executor/executor.h"
#include "kernels/executor/hopper.h"
#include "kernels/executor/threads/sanitizer.h"
#include "kernels/executor/threads/schedule.h"
#include "kernels/executor/threads/stacks.h"
#include "kernels/executor/threads/switch.h"

namespace simt {

inline constexpr uint32_t kWarpSize = 32;
inline constexpr uint32_t kMaxWarps = 32;
inline constexpr uint32_t kBarriers = 16;
inline constexpr size_t kSharedCapacity = size_t{1} << 20;  // shared memory of a block with its redzones

struct Copy {
  void* shared;
  const void* global;
  uint32_t bytes, given;  // the first `given` bytes are copied, and the rest become zeros
  uint64_t group;
  Place here;
};

// A thread's asynchronous copies, oldest first.
struct CopyQueue {
  std::vector<Copy> copies;
  size_t landed = 0;  // copies[0..landed) are done
  uint64_t open_group = 0;
  bool empty() const { return landed == copies.size(); }
};

// An arrival at a barrier of cuda::pipeline when a thread's copies have landed.
struct LateArrival {
  uint32_t thread;
  uint64_t group;  // the youngest group of these copies
  uint32_t mbarrier;
  Place here;
};

// A box that is on its way.
struct TensorCopy {
  TensorMap map;
  int32_t at[4];
  unsigned char* shared;
  uint32_t mbarrier;  // the barrier of a load
  uint32_t phase;     // the phase of that barrier when the load was issued
  uint64_t group;     // the group of a store
  uint32_t thread;    // the thread that issued it
  Place here;
};

// A thread's stores of boxes, oldest first.
struct StoreQueue {
  std::vector<TensorCopy> stores;
  uint64_t open_group = 0;
};

// A thread's progress through the products of its warpgroup, which are numbered from 0.
struct ProductState {
  uint64_t issued = 0;  // it has issued products [0, issued)
  uint64_t landed = 0;  // it has waited for products [0, landed)
  bool fenced = false;
  std::vector<uint64_t>
      group_ends;  // for each committed group that is not waited for: the number of its last product + 1
};

// The address where SWIZZLE_128B puts the byte of address `shared`.
inline unsigned char* swizzled128(const void* shared) {
  const auto address = reinterpret_cast<uintptr_t>(shared);
  return reinterpret_cast<unsigned char*>(address ^ ((address >> 7 & 7) << 4));
}

// The lanes that came to a collective with one mask and wait for one another.
struct Group {
  const WarpOp* op;
  uint32_t mask;
  uint32_t arrived = 0;
  Place here;
};

struct Warp {
  uint32_t number;
  uint32_t ready = 0;
  uint32_t existing = 0;
  uint32_t left = 0;  // lanes whose thread has left the kernel
  void* argument[kWarpSize];
  uint32_t active = 0;  // bit set of groups that have a lane
  Group group[kWarpSize];
  uint32_t gathering = 0;             // lanes that wait in active_lanes()
  Place gathering_at[kWarpSize];      // the place where each of them waits
  uint32_t gathered[kWarpSize] = {};  // the answer of each
  uint32_t polled = 0;                // how often other lanes polled meanwhile
  uint32_t fences = 0;                // collectives that ordered memory so far
  Place barrier_place[kWarpSize];     // the place of a lane that waits at a barrier
};

struct Lane {
  Thread thread;  // first: simt::current points here
  uint32_t bit;   // 1 << lane
  Warp* warp;
  Context context = nullptr;
  bool done = false;
  Stack stack{};
  uint32_t stack_number = 0;
  sanitizer::Fiber fiber;
  CopyQueue copies;
  // On the heap, so that blocks without stores and products touch less memory. Lanes are never freed.
  StoreQueue& stores = *new StoreQueue;
  ProductState& products = *new ProductState;
  uint32_t proxy_fences = 0;
};

struct Barrier {
  uint32_t arrived = 0;
  uint32_t expected = 0;  // 0 if no thread has arrived yet
  bool whole = false;     // a barrier of all threads that have not left
  uint32_t first = 0;     // the thread that came first
  Place here{};           // its place
  uint32_t warps = 0;     // bit set of warps that have a waiting lane
  uint32_t waiting[kMaxWarps];
  uint32_t phase = 0;  // how often it was passed
};

// A barrier in shared memory (hopper.h).
struct MBarrier {
  void* address;
  uint32_t count;
  Place here;  // the place of its initialisation
  uint32_t initialiser;
  bool fenced = false;
  bool of_pipeline = false;
  uint32_t pending;    // arrivals that this phase still lacks
  int64_t bytes = 0;   // bytes that are announced and have not landed
  uint32_t phase = 0;  // phases that are over
  uint32_t warps = 0;  // bit set of warps that have a waiting lane
  uint32_t waiting[kMaxWarps] = {};
  uint32_t released = 0;  // lanes that were released and have not run since
  char order_tags[2];     // by parity of the phase
};

struct Warpgroup;  // wgmma.cc

struct SharedArray {
  size_t offset;    // the offset on a GPU
  size_t bytes;     // the bytes that were asked for
  size_t physical;  // the offset from the base of the arena
  Place here;
};

struct Fault {
  bool set = false;
  attn_report_kind kind;
  Index thread;
  Place here;
  int32_t shared_bytes;  // as in attn_report
  char message[512];
};

struct Block {
  Geometry geometry{};
  Order order{};
  Random random{0};
  uint32_t threads = 0;
  uint32_t warps = 0;
  uint32_t live = 0;
  uint32_t ready_warps = 0;
  uint32_t warp = 0;  // the warp of the running lane
  const Launch* launch = nullptr;
  Fault fault;
  Lane* left = nullptr;      // the lane that ran before
  Lane host;                 // stands for the caller of launch()
  std::vector<Lane*> lanes;  // made once, never moved: fibers hold their addresses
  Warp warp_state[kMaxWarps];
  Barrier barriers[kBarriers];
  BlockVote votes[2] = {};  // at barrier 0, by parity of its phase
  std::vector<SharedArray> arrays;
  std::deque<MBarrier> mbarriers;  // never moved: a sanitizer knows their addresses
  std::vector<TensorCopy> loads;   // loads that are on their way
  std::vector<LateArrival> late_arrivals;
  std::vector<Warpgroup*> warpgroups;
  // For each 16 bytes of shared memory: the thread that wrote there last and how often it had fenced, or 0.
  std::vector<uint32_t> generic_writes;
  bool asynchronous = false;  // a block used mbarriers, boxes or products
  bool dependent = false;     // the launch is a dependent one
  bool waited = false;        // a thread of this block has waited for the launch before it
  void* statics = nullptr;    // __shared__ arrays of plain CUDA code
  size_t statics_bytes = 0;
  size_t statics_checked = 0;  // the module whose static arrays were last found to be within the limit
  size_t shared_used = 0;      // bytes of the arena that may no longer be poison
  // ThreadSanitizer orders memory by these addresses, one for each barrier or warp and each parity of its use.
  // A thread may come to the next use of a barrier before all threads have left this use.
  struct {
    char start, end;
    char barrier[kBarriers][2];
    char warp[kMaxWarps][2];
  } order_tags{};

  Lane& lane(uint32_t linear) { return *lanes[linear]; }
};

// The block that runs on this OS thread; null before the first launch.
extern constinit thread_local Block* running_block __attribute__((tls_model("initial-exec")));
inline Block& running() { return *running_block; }
inline Lane& self() { return *reinterpret_cast<Lane*>(current); }

inline bool same(Place a, Place b) {
  return a.line == b.line && (a.file == b.file || __builtin_strcmp(a.file, b.file) == 0);
}

// scheduler.cc
void start_lanes(Block& block);           // makes the launch's threads ready
void end_lanes(Block& block);             // makes the threads' writes visible to the host
void run_block(Block& block);             // runs until all threads are done, or one has faulted
void wait_in_warp(Block& b, Lane& me);    // runs other lanes; the caller must not be ready
[[noreturn]] void abandon(Block& block);  // returns to the host after block.fault was set

inline void make_ready(Block& b, Warp& warp, uint32_t lanes) {
  if (!lanes) return;
  warp.ready |= lanes;
  b.ready_warps |= 1u << warp.number;
}

// fault.cc
void record_fault(Block& block, attn_report_kind kind, Index thread, Place here, const char* format, ...)
    __attribute__((format(printf, 5, 6)));
void record_deadlock(Block& block);
void send_report(const Block& block, const attn_env* env);

// arena.cc
void begin_arena(Block& block);  // at the start of a launch
void reset_arena(Block& block);
void check_red_zones(Block& block);
unsigned char* shared_base();
// True if [begin, begin + bytes) is within one array.
bool is_shared(const Block& block, const void* begin, size_t bytes);
// The same, or among the static arrays.
bool is_any_shared(const Block& block, const void* begin, size_t bytes);

// copy.cc
void check_copies(Block& block, Lane& lane);  // at the end of a thread
bool land_copies(Block& block);               // false if no thread has copies that arrive at a barrier

// barrier.cc
void reset_barriers(Block& block);
void check_barriers(Block& block);  // at the end of a block
void leave_barriers(Block& block);  // a thread has left: barriers of the whole block stop waiting for it

// collective.cc
void leave_collectives(Block& block, Lane& lane);  // a thread has left: collectives stop waiting for it
void let_gathered_go(Block& block, Warp& warp);  // releases the lanes that wait in active_lanes() at one place

// mbarrier.cc
MBarrier& mbarrier_at(Block& block, void* address, const char* word, Place here);  // faults if there is none
void land_bytes(Block& block, const TensorCopy& load, int64_t bytes);
void arrive_late(Block& block, const LateArrival& arrival);
void check_mbarriers(Block& block);
size_t describe_mbarrier(const Block& block, const Lane& waiting, char* to,
                         size_t size);  // 0 if it waits at none

// tensor_copy.cc
bool land_load(Block& block);                 // false if no load is on its way
void check_stores(Block& block, Lane& lane);  // at the end of a thread
void check_loads(Block& block);               // at the end of a block
// Records that a lane wrote 16 bytes, if they lie in the arena.
void note_generic_write(const void* shared, const Lane& writer);
// Faults if bytes that the async proxy is about to read or to overwrite were written without a fence after it.
void check_proxy(Block& block, const void* shared, size_t bytes, const char* what, Place here);

// wgmma.cc
bool land_products(Block& block);  // false if no thread waits for a product that could land
void check_products(Block& block, Lane& lane);
void check_warpgroups(Block& block);
void reset_warpgroups(Block& block);
size_t describe_warpgroup(const Block& block, const Lane& waiting, char* to, size_t size);

// statics.cc: the __shared__ arrays of plain CUDA code
struct Statics {
  size_t module = 0;  // 0 if there is none
  size_t bytes = 0;
  const char* path = nullptr;  // the path of the module
  uintptr_t base = 0;          // where the module was loaded
  void* memory = nullptr;      // the arrays of this OS thread, once they have been filled
};
Statics find_statics(const void* kernel);
void poison_statics(Statics& statics);
void check_statics(Block& block, const Statics& statics);  // at the end of a block

// static_sizes.cc
// True if the sizes of static arrays must be looked up to know that the launch is legal.
bool may_exceed_static_sizes(const Statics& statics, const Launch& launch);
// Records a fault if the launch has more shared memory than a device would give it. `reached`: after a block,
// with the arrays that it wrote.
void check_static_sizes(Block& block, const Statics& statics, bool reached);

}  // namespace simt
