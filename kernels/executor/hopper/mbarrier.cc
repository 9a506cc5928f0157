// mbarriers (hopper.h). The eight bytes in shared memory hold a mark and the barrier's index in
// Block::mbarriers, where its state is kept. The mark shows if a barrier is not initialised, or was
// overwritten.
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <bit>

#include "kernels/executor/threads/block.h"

namespace simt {
namespace {

constexpr uint32_t kMark = 0x5242424D;

uint32_t parity_of(const MBarrier& barrier) { return barrier.phase % 2; }

// Completes the phase if all its arrivals and bytes are there. Called after an arrival of thread `by`, or after
// bytes of its copies landed.
void advance(Block& b, MBarrier& m, const Thread* by, Place here) {
  if (m.pending) return;
  if (m.bytes < 0) {
    fault(ATTN_REPORT_ASYNC, by, here,
          "%lld bytes more have landed on the barrier initialised at %s:%d than its phase %u announced",
          static_cast<long long>(-m.bytes), m.here.file, m.here.line, m.phase);
  }
  if (m.bytes) return;
  if (m.released) {
    fault(ATTN_REPORT_ASYNC, by, here,
          "phase %u of the barrier initialised at %s:%d ends here while %u threads that waited for the phase "
          "before have not gone on: they would miss it",
          m.phase, m.here.file, m.here.line, m.released);
  }
  ++m.phase;
  m.pending = m.count;
  for (uint32_t warps = m.warps; warps; warps &= warps - 1) {
    const uint32_t warp = std::countr_zero(warps);
    make_ready(b, b.warp_state[warp], m.waiting[warp]);
    m.released += std::popcount(m.waiting[warp]);
    m.waiting[warp] = 0;
  }
  m.warps = 0;
}

void arrive(MBarrier& m, uint32_t bytes, Place here) {
  const Thread* me = &self().thread;
  if (m.pending == 0) {
    fault(ATTN_REPORT_ASYNC, me, here,
          "one arrival more than the %u that the barrier initialised at %s:%d counts: %lld bytes of its phase "
          "%u have not landed yet",
          m.count, m.here.file, m.here.line, static_cast<long long>(m.bytes), m.phase);
  }
  m.bytes += bytes;
  if (m.bytes >= 1 << 20) {
    fault(ATTN_REPORT_ASYNC, me, here, "%lld bytes announced: a barrier counts up to 2^20 - 1",
          static_cast<long long>(m.bytes));
  }
  sanitizer::release(&m.order_tags[parity_of(m)]);
  --m.pending;
  advance(running(), m, me, here);
}

}  // namespace

MBarrier& mbarrier_at(Block& b, void* address, const char* word, Place here) {
  const Lane& me = self();
  const Thread* thread = &me.thread;
  if (reinterpret_cast<uintptr_t>(address) % 8 != 0) {
    fault(ATTN_REPORT_ALIGNMENT, thread, here, "%s at shared address %p: not a multiple of 8", word, address);
  }
  if (!is_any_shared(b, address, 8)) {
    fault(ATTN_REPORT_SHARED, thread, here, "%s at %p: not in an array of shared memory", word, address);
  }
  sanitizer::reads(address, 8);
  uint32_t words[2];
  memcpy(words, address, 8);
  if (words[1] == kMark && words[0] < b.mbarriers.size() && b.mbarriers[words[0]].address == address)
      [[likely]] {
    MBarrier& barrier = b.mbarriers[words[0]];
    if (!barrier.fenced && barrier.initialiser != thread->linear) {
      fault(ATTN_REPORT_ASYNC, thread, here,
            "%s on the barrier initialised at %s:%d, whose thread has not called mbarrier_init_fence", word,
            barrier.here.file, barrier.here.line);
    }
    return barrier;
  }
  for (const MBarrier& barrier : b.mbarriers) {
    if (barrier.address != address) continue;
    fault(ATTN_REPORT_ASYNC, thread, here, "%s on the barrier initialised at %s:%d, which was written over",
          word, barrier.here.file, barrier.here.line);
  }
  fault(ATTN_REPORT_ASYNC, thread, here, "%s at %p, where no barrier has been initialised", word, address);
}

namespace {

// The state of a new barrier, or of one of a pipeline that is initialised again.
MBarrier& state_of(Block& b, void* address, bool of_pipeline, Place here) {
  for (MBarrier& barrier : b.mbarriers) {
    if (barrier.address != address) continue;
    if (of_pipeline && barrier.of_pipeline && !barrier.warps) return barrier;
    fault(ATTN_REPORT_ASYNC, &self().thread, here, "the barrier initialised at %s:%d is initialised again",
          barrier.here.file, barrier.here.line);
  }
  const sanitizer::Unseen books;
  return b.mbarriers.emplace_back();
}

MBarrier& initialise(void* address, uint32_t count, bool of_pipeline, Place here) {
  Block& b = running();
  const Thread* me = &self().thread;
  if (reinterpret_cast<uintptr_t>(address) % 8 != 0) {
    fault(ATTN_REPORT_ALIGNMENT, me, here, "mbarrier_init at shared address %p: not a multiple of 8", address);
  }
  if (!is_any_shared(b, address, 8)) {
    fault(ATTN_REPORT_SHARED, me, here, "mbarrier_init at %p: not in an array of shared memory", address);
  }
  if (count == 0 || count >= 1u << 20) {
    fault(ATTN_REPORT_ASYNC, me, here, "a barrier for %u arrivals: 1 to 2^20 - 1 are possible", count);
  }
  b.asynchronous = true;
  MBarrier& barrier = state_of(b, address, of_pipeline, here);
  barrier.address = address;
  barrier.count = barrier.pending = count;
  barrier.here = here;
  barrier.initialiser = me->linear;
  barrier.fenced = barrier.of_pipeline = of_pipeline;
  barrier.phase = 0;
  const auto found = std::ranges::find(b.mbarriers, address, &MBarrier::address);
  const uint32_t words[2] = {static_cast<uint32_t>(found - b.mbarriers.begin()), kMark};
  memcpy(address, words, 8);
  sanitizer::carry(address, nullptr, 8);
  sanitizer::writes(address, 8);
  return barrier;
}

}  // namespace

void mbarrier_init(void* address, uint32_t count, Place here) { initialise(address, count, false, here); }

void pipeline_barrier_init(void* address, uint32_t count, Place here) {
  initialise(address, count, true, here);
}

void mbarrier_init_fence(Place) {
  for (MBarrier& barrier : running().mbarriers) {
    if (barrier.initialiser == self().thread.linear) barrier.fenced = true;
  }
}

void mbarrier_expect(void* address, uint32_t bytes, Place here) {
  arrive(mbarrier_at(running(), address, "mbarrier_expect", here), bytes, here);
}

void mbarrier_arrive(void* address, Place here) {
  arrive(mbarrier_at(running(), address, "mbarrier_arrive", here), 0, here);
}

void mbarrier_wait(void* address, uint32_t parity, Place here) {
  Block& b = running();
  Lane& me = self();
  MBarrier& m = mbarrier_at(b, address, "mbarrier_wait", here);
  if (parity > 1)
    fault(ATTN_REPORT_ASYNC, &me.thread, here, "mbarrier_wait for parity %u: it is 0 or 1", parity);
  if (parity_of(m) == parity) {
    const uint32_t warp = me.warp->number;
    m.waiting[warp] |= me.bit;
    m.warps |= 1u << warp;
    me.warp->barrier_place[std::countr_zero(me.bit)] = here;
    wait_in_warp(b, me);
    --m.released;
  }
  sanitizer::acquire(&m.order_tags[parity]);
}

void land_bytes(Block& b, const TensorCopy& load, int64_t bytes) {
  MBarrier& m = b.mbarriers[load.mbarrier];
  if (m.phase != load.phase) {
    fault(ATTN_REPORT_ASYNC, &b.lane(load.thread).thread, load.here,
          "a load sent in phase %u of the barrier initialised at %s:%d lands in phase %u: fewer bytes were "
          "announced than sent",
          load.phase, m.here.file, m.here.line, m.phase);
  }
  m.bytes -= bytes;
  advance(b, m, &b.lane(load.thread).thread, load.here);
}

void arrive_late(Block& b, const LateArrival& arrival) {
  MBarrier& m = b.mbarriers[arrival.mbarrier];
  --m.pending;
  advance(b, m, &b.lane(arrival.thread).thread, arrival.here);
}

void check_mbarriers(Block& b) {
  for (const MBarrier& m : b.mbarriers) {
    if (m.of_pipeline || (m.pending == m.count && m.bytes == 0)) continue;
    record_fault(b, ATTN_REPORT_DEADLOCK, b.lane(m.initialiser).thread.index, m.here,
                 "the block ended in the middle of phase %u of this barrier: %u of %u arrivals, and %lld bytes "
                 "to come",
                 m.phase, m.count - m.pending, m.count, static_cast<long long>(m.bytes));
    return;
  }
}

size_t describe_mbarrier(const Block& b, const Lane& waiting, char* to, size_t size) {
  for (const MBarrier& m : b.mbarriers) {
    if (!(m.waiting[waiting.warp->number] & waiting.bit)) continue;
    return static_cast<size_t>(snprintf(
        to, size, "for phase %u of the barrier initialised at line %d (%u of %u arrivals, %lld bytes to come)",
        m.phase, m.here.line, m.count - m.pending, m.count, static_cast<long long>(m.bytes)));
  }
  return 0;
}

}  // namespace simt
