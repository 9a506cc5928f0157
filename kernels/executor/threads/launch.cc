// A launch: the blocks of a grid, one after the other, in the schedule's order.
#include <numeric>

#include "kernels/executor/arithmetic/arithmetic.h"
#include "kernels/executor/threads/block.h"
#include "kernels/executor/threads/progress.h"

namespace simt {
namespace {

// Visits 0..count-1 in the schedule's order, without a table: the random order
// is i -> (i * step + start) mod count, where step and count have no common factor.
struct BlockOrder {
  uint64_t count, start = 0, step = 1;

  BlockOrder(uint64_t blocks, Order order, uint64_t seed) : count(blocks) {
    if (order == Order::kDescending) {
      start = count - 1;
      step = count - 1;
    } else if (order == Order::kRandom) {
      Random random(seed, ~uint64_t{0});
      start = random.next() % count;
      do {
        step = 1 + random.next() % count;
      } while (std::gcd(step, count) != 1);
    }
  }

  uint64_t at(uint64_t i) const {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(i) * step + start) % count);
  }
};

// To emulate a device's arithmetic, the processor must follow IEEE 754. A library that is built with
// -ffast-math makes the processor flush subnormals as soon as it is loaded.
void check_arithmetic(Block& b, int32_t number) {
  constexpr unsigned kZeroOperands = 1 << 6, kRounding = 3 << 13, kZeroResults = 1 << 15;
  const unsigned control = __builtin_ia32_stmxcsr();
  if (!arithmetic && number != ATTN_ARITHMETIC_ANY) {
    record_fault(b, ATTN_REPORT_LAUNCH, {0, 0, 0}, {nullptr, 0}, "env.arithmetic is %d, which is not known",
                 number);
  } else if (arithmetic && (control & (kZeroOperands | kRounding | kZeroResults))) {
    record_fault(
        b, ATTN_REPORT_LAUNCH, {0, 0, 0}, {nullptr, 0},
        "the processor flushes subnormals, or does not round to nearest (MXCSR is 0x%x): a device's arithmetic "
        "cannot be emulated; was a library built with -ffast-math?",
        control);
  }
}

void reset_asynchronous(Block& b) {
  const sanitizer::Unseen books;
  b.asynchronous = false;
  b.mbarriers.clear();
  b.loads.clear();
  b.late_arrivals.clear();
  reset_warpgroups(b);
  for (uint32_t i = 0; i < b.lanes.size(); ++i) b.lane(i).products = {};
}

void check_asynchronous(Block& b) {
  check_loads(b);
  if (!b.fault.set) check_mbarriers(b);
  if (!b.fault.set) check_warpgroups(b);
}

// Only a dependent launch must wait for the one before it.
void check_dependency(Block& b) {
  if (!b.dependent || b.waited) return;
  record_fault(b, ATTN_REPORT_ASYNC, {0, 0, 0}, {nullptr, 0},
               "a block of a dependent launch ended without grid_dependency_wait(): it may run before the "
               "launch that it depends on has ended");
}

void run_one(Block& b, Statics& statics) {
  b.waited = false;
  reset_arena(b);
  reset_barriers(b);
  if (b.asynchronous) reset_asynchronous(b);
  if (!b.generic_writes.empty()) b.generic_writes.clear();
  // Static arrays have the same addresses in every block, so this block's accesses follow those of the
  // previous block.
  if (statics.module) end_lanes(b);
  poison_statics(statics);
  b.statics = statics.memory;
  b.statics_bytes = statics.bytes;
  run_block(b);
  if (!b.fault.set) check_barriers(b);
  if (!b.fault.set && b.asynchronous) check_asynchronous(b);
  if (!b.fault.set) check_dependency(b);
  if (!b.fault.set) check_red_zones(b);
  if (!b.fault.set) check_statics(b, statics);
}

}  // namespace

void grid_dependency_wait(Place) { running().waited = true; }

namespace {

std::atomic<Progress*> published = nullptr;

void begin_progress(Progress* to, uint64_t blocks) {
  if (to == nullptr) return;
  to->done.store(0, std::memory_order_relaxed);
  to->blocks.store(blocks, std::memory_order_relaxed);
}

void count_block(Progress* to) {
  if (to == nullptr) return;
  to->done.fetch_add(1, std::memory_order_relaxed);
  to->ended.fetch_add(1, std::memory_order_relaxed);
}

attn_status run_blocks(const Launch& launch, bool dependent) {
  if (current)
    fault(ATTN_REPORT_LAUNCH, current, {nullptr, 0}, "a kernel launches a kernel: only the host may");
  if (!running_block) running_block = new Block;  // for the life of the OS thread
  Block& b = running();
  b.dependent = dependent;
  const uint64_t seed = launch.env->schedule_seed;
  const Schedule schedule = schedule_of(seed);
  b.launch = &launch;
  b.fault.set = false;
  arithmetic = device::model_of(launch.env->arithmetic);
  check_arithmetic(b, launch.env->arithmetic);
  if (b.fault.set) {
    send_report(b, launch.env);
    return ATTN_LAUNCH_FAILED;
  }
  b.order = schedule.order;
  b.geometry = {{0, 0, 0},
                launch.block,
                launch.grid,
                schedule.mma_truncates,
                schedule.copies_early,
                schedule.products_early,
                schedule.elected_lane};
  start_lanes(b);
  begin_arena(b);
  Statics statics = find_statics(launch.kernel);
  const bool close = may_exceed_static_sizes(statics, launch);
  if (close) check_static_sizes(b, statics, false);
  if (b.fault.set) {
    send_report(b, launch.env);
    return ATTN_LAUNCH_FAILED;
  }
  const Index grid = launch.grid;
  const BlockOrder blocks(uint64_t{grid.x} * grid.y * grid.z, schedule.order, seed);
  Progress* const progress = published;
  begin_progress(progress, blocks.count);
  for (uint64_t i = 0; i < blocks.count; ++i) {
    const uint64_t linear = blocks.at(i);
    b.geometry.block = {static_cast<unsigned>(linear % grid.x), static_cast<unsigned>(linear / grid.x % grid.y),
                        static_cast<unsigned>(linear / grid.x / grid.y)};
    b.random = Random(seed, linear);
    run_one(b, statics);
    if (close && i == 0 && !b.fault.set) check_static_sizes(b, statics, true);
    count_block(progress);
    if (b.fault.set) {
      end_lanes(b);
      send_report(b, launch.env);
      return ATTN_FAULT;
    }
  }
  end_lanes(b);
  return ATTN_OK;
}

attn_status run_in_arithmetic(const Launch& launch, bool dependent) {
  const attn_status status = run_blocks(launch, dependent);
  arithmetic = nullptr;
  return status;
}

}  // namespace

void publish_progress(Progress* to) { published = to; }

attn_status launch(const Launch& launch) { return run_in_arithmetic(launch, false); }
attn_status launch_dependent(const Launch& launch) { return run_in_arithmetic(launch, true); }

}  // namespace simt
