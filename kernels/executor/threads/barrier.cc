// Barriers of a block: number 0 is the block's own (__syncthreads), and 1 to 15 are named barriers between some
// of its warps.
//
// If a thread skips a barrier, the kernel does not hang: the thread's next barrier pairs with the skipped one.
// So the executor also checks that threads arrive from the same place in the source. At the block's barrier,
// all threads must. At a named barrier only the lanes of one warp must, because producers and consumers use it
// from different places.
//
// A barrier of the whole block waits only for threads that have not left the kernel, as on hardware. So an
// early return blocks no other thread. A barrier with a count waits for that number of threads.
#include <bit>

#include "kernels/executor/threads/block.h"

namespace simt {
namespace {

void release(Block& b, Barrier& barrier) {
  for (uint32_t warps = barrier.warps; warps; warps &= warps - 1) {
    const uint32_t warp = std::countr_zero(warps);
    make_ready(b, b.warp_state[warp], barrier.waiting[warp]);
    barrier.waiting[warp] = 0;
  }
  barrier.warps = 0;
  barrier.arrived = 0;
  barrier.expected = 0;
  ++barrier.phase;
}

void check_count(Block& b, Lane& me, uint32_t id, uint32_t threads, Place here) {
  if (id >= kBarriers) {
    fault(ATTN_REPORT_DIVERGENCE, &me.thread, here, "there is no barrier %u: they are 0 to 15", id);
  }
  if (threads % kWarpSize != 0 || threads == 0) {
    fault(ATTN_REPORT_DIVERGENCE, &me.thread, here,
          "barrier %u for %u threads: the count must be a multiple of 32", id, threads);
  }
  if (threads > b.warps * kWarpSize) {
    fault(ATTN_REPORT_DIVERGENCE, &me.thread, here, "barrier %u for %u threads in a block of %u", id, threads,
          b.threads);
  }
}

// Compares this thread's arrival with those before it.
void check_company(Block& b, Lane& me, uint32_t id, uint32_t threads, bool wait, bool whole, Place here) {
  const Barrier& barrier = b.barriers[id];
  const Thread& first = b.lane(barrier.first).thread;
  if (barrier.expected != threads) {
    fault(ATTN_REPORT_DIVERGENCE, &me.thread, here,
          "barrier %u for %u threads, while thread (%u,%u,%u) came for %u at %s:%d", id, threads, first.index.x,
          first.index.y, first.index.z, barrier.expected, barrier.here.file, barrier.here.line);
  }
  if (whole && !same(barrier.here, here)) {
    fault(ATTN_REPORT_DIVERGENCE, &me.thread, here,
          "a barrier of the block reached here, and by thread (%u,%u,%u) at %s:%d", first.index.x,
          first.index.y, first.index.z, barrier.here.file, barrier.here.line);
  }
  if (const uint32_t mates = barrier.waiting[me.warp->number]; wait && mates) {
    const uint32_t other = std::countr_zero(mates);
    const Place there = me.warp->barrier_place[other];
    if (!same(there, here)) {
      fault(ATTN_REPORT_DIVERGENCE, &me.thread, here,
            "barrier %u reached here, and by lane %u of the warp at %s:%d", id, other, there.file, there.line);
    }
  }
}

}  // namespace

void barrier(uint32_t id, uint32_t threads, bool wait, Place here) {
  Block& b = running();
  Lane& me = self();
  const bool whole = threads == kWholeBlock;
  if (whole) {
    threads = b.threads;
  } else {
    check_count(b, me, id, threads, here);
  }
  Barrier& barrier = b.barriers[id];
  if (barrier.expected) {
    check_company(b, me, id, threads, wait, whole, here);
  } else {
    barrier.expected = threads;
    barrier.whole = whole;
    barrier.first = me.thread.linear;
    barrier.here = here;
  }
  char* const tag = &b.order_tags.barrier[id][barrier.phase % 2];
  sanitizer::release(tag);
  if (++barrier.arrived == (whole ? b.live : barrier.expected)) {
    release(b, barrier);
    if (wait) sanitizer::acquire(tag);
    return;
  }
  if (!wait) return;
  barrier.waiting[me.warp->number] |= me.bit;
  barrier.warps |= 1u << me.warp->number;
  me.warp->barrier_place[std::countr_zero(me.bit)] = here;
  wait_in_warp(b, me);
  sanitizer::acquire(tag);
}

BlockVote block_vote(bool predicate, Place here) {
  Block& b = running();
  // All threads read the votes before any thread comes to the barrier after the next one.
  BlockVote& votes = b.votes[b.barriers[0].phase % 2];
  if (!b.barriers[0].expected) votes = {};
  ++(predicate ? votes.yes : votes.no);
  barrier(0, kWholeBlock, true, here);
  return votes;
}

void reset_barriers(Block& b) {
  for (Barrier& barrier : b.barriers) barrier = {};
}

void leave_barriers(Block& b) {
  Barrier& barrier = b.barriers[0];
  if (barrier.expected && barrier.whole && barrier.arrived == b.live) release(b, barrier);
}

void check_barriers(Block& b) {
  for (uint32_t id = 0; id < kBarriers; ++id) {
    const Barrier& barrier = b.barriers[id];
    if (!barrier.expected) continue;
    record_fault(b, ATTN_REPORT_DEADLOCK, b.lane(barrier.first).thread.index, barrier.here,
                 "the block ended with %u of %u arrivals at barrier %u: threads arrived there, but none waits",
                 barrier.arrived, barrier.expected, id);
    return;
  }
}

}  // namespace simt
