// The scheduler creates fibers and chooses which one runs next. It is compiled without instrumentation in every
// build (sanitizer.h). Functions that switch fibers return void, because a sanitizer's shadow of a return value
// would be the other fiber's.
#include <algorithm>
#include <bit>

#include "kernels/executor/threads/block.h"

// CUDA's variables, which kernels read as constants (cuda_words.h, cuda/builtins.h). In those headers the
// dimensions are a dim3.
extern SIMT_EXPORT const int warpSize;
const int warpSize = 32;
SIMT_EXPORT constinit thread_local simt::Index threadIdx = {}, blockIdx = {}, blockDim = {}, gridDim = {};

namespace simt {

constinit thread_local Thread* current = nullptr;
constinit thread_local Block* running_block = nullptr;

namespace {

// With kLanesRotate, threads move by this number of lanes from each block to the next. It is not a multiple of
// 32, so that threads move across warp borders too.
constexpr uint32_t kRotation = 37;
// Lanes in active_lanes() wait for the other lanes of their warp, until these have polled this many times.
constexpr uint32_t kPatience = 1024;

inline void jump(Lane& from, Lane& to) {
  running().left = &from;
  sanitizer::leave(from.fiber, to.fiber, to.stack);
  current = &to.thread;
  threadIdx = to.thread.index;
  switch_context(&from.context, to.context);
  sanitizer::arrive(from.fiber, running().left->stack);
}

inline Lane& take(Block& b, uint32_t warp, uint32_t lane) {
  Warp& state = b.warp_state[warp];
  state.ready &= ~(1u << lane);
  if (!state.ready) b.ready_warps &= ~(1u << warp);
  b.warp = warp;
  return b.lane(warp * kWarpSize + lane);
}

// Takes the next lane out of the ready set; null if none is ready.
inline Lane* pick(Block& b) {
  if (!b.ready_warps) return nullptr;
  uint32_t warp = b.warp, lane = 0;
  switch (b.order) {
    case Order::kAscending:
      // Stays with this warp as long as possible, because its data is in the cache.
      warp = (warp + std::countr_zero(std::rotr(b.ready_warps, static_cast<int>(warp)))) % kMaxWarps;
      lane = std::countr_zero(b.warp_state[warp].ready);
      break;
    case Order::kDescending:
      warp = (warp - std::countl_zero(std::rotl(b.ready_warps, static_cast<int>(31 - warp)))) % kMaxWarps;
      lane = 31 - std::countl_zero(b.warp_state[warp].ready);
      break;
    case Order::kRandom: {
      const uint64_t random = b.random.next();
      const auto turn_warps = static_cast<int>(random & 31), turn_lanes = static_cast<int>(random >> 5 & 31);
      warp = (turn_warps + std::countr_zero(std::rotr(b.ready_warps, turn_warps))) % kMaxWarps;
      lane = (turn_lanes + std::countr_zero(std::rotr(b.warp_state[warp].ready, turn_lanes))) % kWarpSize;
      break;
    }
  }
  return &take(b, warp, lane);
}

// Lets one late load, product or thread's copies land: in descending order products go first, else loads.
inline bool land(Block& b) {
  if (b.order == Order::kDescending) return land_products(b) || land_copies(b) || land_load(b);
  return land_load(b) || land_copies(b) || land_products(b);
}

[[gnu::noinline, gnu::cold]] Lane* next_after_landing(Block& b) {
  Lane* next = nullptr;
  while (!next && land(b)) next = pick(b);
  return next;
}

// The next lane. If none is ready, late copies and products land until one is.
inline Lane* next_lane(Block& b) {
  Lane* next = pick(b);
  return next ? next : next_after_landing(b);
}

// Releases lanes in active_lanes() if no other lane of the warp can still come to their place.
inline void gather(Block& b, Warp& warp) {
  if (warp.gathering && !warp.ready) [[unlikely]]
    let_gathered_go(b, warp);
}

// Checks that a thread has waited for all asynchronous operations that it started.
[[gnu::noinline, gnu::cold]] void check_ended(Block& b, Lane& me) {
  if (!me.copies.empty()) {
    check_copies(b, me);
  } else if (!me.stores.stores.empty()) {
    check_stores(b, me);
  } else if (me.products.landed != me.products.issued) {
    check_products(b, me);
  } else {
    return;
  }
  abandon(b);
}

// Ends the running lane. Returns when the lane is needed in the next block.
void finish(Block& b, Lane& me) {
  if (!me.copies.empty() || b.asynchronous) check_ended(b, me);
  me.done = true;
  --b.live;
  sanitizer::release(&b.order_tags.end);
  if (b.live) {
    me.warp->left |= me.bit;
    if (b.barriers[0].expected) leave_barriers(b);
    if (me.warp->active) leave_collectives(b, me);
    gather(b, *me.warp);
  }
  Lane* next = b.live ? next_lane(b) : nullptr;
  if (!next && b.live) record_deadlock(b);
  jump(me, next ? *next : b.host);
}

void enter() {
  Lane& me = self();
  sanitizer::arrive(me.fiber, running().left->stack);
  for (;;) {
    Block& b = running();
    sanitizer::acquire(&b.order_tags.start);
    sanitizer::enter();
    b.launch->entry(b.launch->arguments);
    finish(b, me);
  }
}

// Gives each lane the thread whose number is the lane's place in b.lanes.
void number_lanes(Block& b) {
  const Index dim = b.geometry.block_dim;
  for (uint32_t linear = 0; linear < b.threads; ++linear) {
    Lane& lane = b.lane(linear);
    lane.thread.linear = linear;
    lane.thread.index = {linear % dim.x, linear / dim.x % dim.y, linear / dim.x / dim.y};
    lane.warp = &b.warp_state[linear / kWarpSize];
    lane.bit = 1u << (linear % kWarpSize);
  }
}

void on_stack_overflow(size_t index) {
  Block& b = running();
  Lane& lane = **std::ranges::find(b.lanes, index, &Lane::stack_number);
  record_fault(b, ATTN_REPORT_STACK, lane.thread.index, {nullptr, 0},
               "the thread ran off its stack of %zu KiB: recursion, or a very large local array",
               lane.stack.size / 1024);
  abandon(b);
}

}  // namespace

void watch_threads() { watch_stacks(on_stack_overflow); }

void start_lanes(Block& b) {
  watch_threads();
  const Index dim = b.geometry.block_dim;
  b.threads = dim.x * dim.y * dim.z;
  b.warps = (b.threads + kWarpSize - 1) / kWarpSize;
  while (b.lanes.size() < b.threads) {
    Lane* lane = new Lane;
    lane->stack_number = static_cast<uint32_t>(b.lanes.size());
    lane->thread.geometry = &b.geometry;
    lane->stack = stack_at(lane->stack_number);
    sanitizer::make(lane->fiber, false);
    b.lanes.push_back(lane);
  }
  number_lanes(b);
  for (uint32_t warp = 0; warp < b.warps; ++warp) {
    const uint32_t count = std::min(kWarpSize, b.threads - warp * kWarpSize);
    b.warp_state[warp].number = warp;
    b.warp_state[warp].existing = count == kWarpSize ? kFullMask : (1u << count) - 1;
  }
  sanitizer::make(b.host.fiber, true);
}

void end_lanes(Block& b) { sanitizer::acquire(&b.order_tags.end); }

void run_block(Block& b) {
  sanitizer::release(&b.order_tags.start);
  if (sanitizer::kLanesRotate) {
    std::rotate(b.lanes.begin(), b.lanes.begin() + kRotation % b.threads, b.lanes.begin() + b.threads);
    number_lanes(b);
  }
  blockIdx = b.geometry.block;
  blockDim = b.geometry.block_dim;
  gridDim = b.geometry.grid_dim;
  b.fault.set = false;
  b.live = b.threads;
  b.ready_warps = b.warps == kMaxWarps ? kFullMask : (1u << b.warps) - 1;
  b.warp = b.order == Order::kDescending ? b.warps - 1 : 0;
  for (uint32_t warp = 0; warp < b.warps; ++warp) {
    b.warp_state[warp].ready = b.warp_state[warp].existing;
    b.warp_state[warp].active = 0;
    b.warp_state[warp].left = 0;
    b.warp_state[warp].gathering = 0;
    for (Group& group : b.warp_state[warp].group) group.arrived = 0;
  }
  for (uint32_t i = 0; i < b.threads; ++i) {
    Lane& lane = b.lane(i);
    lane.done = false;
    // A fiber that ended without a fault waits in enter() for the next block.
    if (!lane.context) lane.context = new_context(lane.stack, enter);
  }
  jump(b.host, *pick(b));
  current = nullptr;
  if (!b.fault.set) return;
  for (Lane* lane : b.lanes) {
    lane->context = nullptr;
    lane->copies = {};
    lane->stores = {};
    sanitizer::abandon(lane->fiber, lane->stack);
  }
}

void wait_in_warp(Block& b, Lane& me) {
  gather(b, *me.warp);
  Lane* next = next_lane(b);
  if (!next) {
    record_deadlock(b);
    abandon(b);
  }
  if (next != &me) jump(me, *next);  // else the copy or product that landed released this lane
}

void yield() {
  Block& b = running();
  Lane& me = self();
  // This lane and other ready lanes may be polling for something that only the lanes in active_lanes() can do.
  if (me.warp->gathering && (!me.warp->ready || ++me.warp->polled == kPatience)) let_gathered_go(b, *me.warp);
  // Takes the ready thread with the next number, in whatever order the schedule is. Otherwise two polling
  // threads could starve a third one.
  const uint32_t mine = me.thread.linear;
  for (uint32_t step = 1; step < b.threads; ++step) {
    const uint32_t linear = (mine + step) % b.threads;
    const uint32_t warp = linear / kWarpSize, lane = linear % kWarpSize;
    if (!(b.warp_state[warp].ready >> lane & 1)) continue;
    Lane& next = take(b, warp, lane);
    make_ready(b, *me.warp, me.bit);
    jump(me, next);
    return;
  }
  land(b);
}

void abandon(Block& b) {
  jump(self(), b.host);
  __builtin_unreachable();
}

}  // namespace simt
