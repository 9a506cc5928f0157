// Asynchronous copies of 4, 8 or 16 bytes from global to shared memory.
//
// A GPU may copy early or late, so a kernel must be right with both. A copy that lands early is done when it is
// issued. A copy that lands late is done in the wait that covers its group. Until then its destination is all
// 0xFF; if the destination holds anything else at the wait, another thread has written it meanwhile.
//
// Copies that are committed to a barrier of a pipeline may land late without a wait of their thread: other
// threads wait for the barrier.
#include <stdint.h>
#include <string.h>

#include <algorithm>

#include "kernels/executor/hopper.h"
#include "kernels/executor/threads/block.h"

namespace simt {
namespace {

// `records`: the running lane issued the copy and has not recorded its accesses.
void land(const Copy& copy, const Lane& lane, bool records) {
  auto* const to = static_cast<unsigned char*>(copy.shared);
  if (copy.given) sanitizer::copy(to, copy.global, copy.given);
  sanitizer::fill(to + copy.given, 0, copy.bytes - copy.given);
  if (records) {
    sanitizer::copied(to, copy.global, copy.given, copy.bytes);
  } else {
    sanitizer::landed(to, copy.global, copy.given, copy.bytes);
  }
  // The copy counts as a write of the thread. wgmma and TMA see it only after a fence for the async proxy. The
  // block's first operation of that proxy may come later, so every copy is recorded.
  if (copy.bytes == 16) note_generic_write(copy.shared, lane);
}

bool is_poison(const void* shared, uint32_t bytes) {
  uint64_t words[2] = {~uint64_t{0}, ~uint64_t{0}};
  memcpy(words, shared, bytes);
  return (words[0] & words[1]) == ~uint64_t{0};
}

}  // namespace

void copy_async(void* shared, const void* global, uint32_t bytes, uint32_t given, Place here) {
  Block& b = running();
  Lane& me = self();
  if (bytes != 16 && bytes != 8 && bytes != 4) [[unlikely]] {
    fault(ATTN_REPORT_ASYNC, &me.thread, here, "an asynchronous copy of %u bytes: 4, 8 or 16 are possible",
          bytes);
  }
  if (given > bytes) [[unlikely]] {
    fault(ATTN_REPORT_ASYNC, &me.thread, here, "an asynchronous copy of %u bytes that reads %u", bytes, given);
  }
  if (reinterpret_cast<uintptr_t>(shared) % bytes != 0) {
    fault(ATTN_REPORT_ALIGNMENT, &me.thread, here, "cp_async%u to shared address %p: not a multiple of %u",
          bytes, shared, bytes);
  }
  if (given && reinterpret_cast<uintptr_t>(global) % bytes != 0) {
    fault(ATTN_REPORT_ALIGNMENT, &me.thread, here, "cp_async%u from global address %p: not a multiple of %u",
          bytes, global, bytes);
  }
  if (given && global == nullptr) {
    fault(ATTN_REPORT_ADDRESS, &me.thread, here, "cp_async%u from a null pointer", bytes);
  }
  if (sanitizer::forbidden(shared, bytes)) {
    fault(ATTN_REPORT_SHARED, &me.thread, here, "cp_async%u to shared address %p: outside of the array", bytes,
          shared);
  }
  CopyQueue& queue = me.copies;
  queue.copies.push_back({shared, global, bytes, given, queue.open_group, here});
  if (b.geometry.copies_early) {
    land(queue.copies.back(), me, true);
  } else {
    memset(shared, 0xFF, bytes);
    sanitizer::will_copy(shared, bytes);
  }
}

void copy_async16(void* shared, const void* global, bool valid, Place here) {
  copy_async(shared, global, 16, valid ? 16 : 0, here);
}

void copy_commit() { ++self().copies.open_group; }

namespace {

// Lands the copies of a lane up to `group`; for those that landed early it is only noted.
void land_groups(Lane& lane, uint64_t group, bool records) {
  CopyQueue& queue = lane.copies;
  const bool late = !lane.thread.geometry->copies_early;
  while (!queue.empty()) {
    const Copy& copy = queue.copies[queue.landed];
    if (copy.group > group) break;
    if (late) {
      if (!is_poison(copy.shared, copy.bytes)) {
        fault(ATTN_REPORT_ASYNC, &lane.thread, copy.here,
              "shared memory at %p was written while an asynchronous copy to it was under way", copy.shared);
      }
      land(copy, lane, records);
    }
    ++queue.landed;
  }
  if (queue.empty()) {
    queue.copies.clear();
    queue.landed = 0;
  }
}

}  // namespace

void copy_wait(uint32_t groups_left) {
  Lane& me = self();
  if (me.copies.empty() || groups_left >= me.copies.open_group) return;
  land_groups(me, me.copies.open_group - groups_left - 1, true);
}

void copy_commit_to(void* barrier, Place here) {
  Block& b = running();
  Lane& me = self();
  MBarrier& m = mbarrier_at(b, barrier, "a commit of copies", here);
  const uint64_t group = me.copies.open_group++;
  for (size_t i = me.copies.landed; i < me.copies.copies.size(); ++i) {
    const Copy& copy = me.copies.copies[i];
    if (copy.given) sanitizer::reads(copy.global, copy.given);
  }
  sanitizer::release(&m.order_tags[m.phase % 2]);
  const LateArrival arrival{
      me.thread.linear, group,
      static_cast<uint32_t>(std::ranges::find(b.mbarriers, barrier, &MBarrier::address) - b.mbarriers.begin()),
      here};
  if (b.geometry.copies_early || me.copies.empty()) return arrive_late(b, arrival);
  const sanitizer::Unseen books;
  b.late_arrivals.push_back(arrival);
}

bool land_copies(Block& b) {
  if (b.late_arrivals.empty()) return false;
  const size_t last = b.late_arrivals.size() - 1;
  const size_t next = b.order == Order::kAscending    ? 0
                      : b.order == Order::kDescending ? last
                                                      : b.random.next() % (last + 1);
  const LateArrival arrival = b.late_arrivals[next];
  {
    const sanitizer::Unseen books;
    b.late_arrivals.erase(b.late_arrivals.begin() + static_cast<ptrdiff_t>(next));
  }
  land_groups(b.lane(arrival.thread), arrival.group, false);
  arrive_late(b, arrival);
  return true;
}

void check_copies(Block& b, Lane& lane) {
  const CopyQueue& queue = lane.copies;
  const Copy& copy = queue.copies[queue.landed];
  record_fault(b, ATTN_REPORT_ASYNC, lane.thread.index, copy.here,
               "the thread ended with %zu asynchronous copies that it never waited for%s",
               queue.copies.size() - queue.landed, copy.group == queue.open_group ? ", nor committed" : "");
}

}  // namespace simt
