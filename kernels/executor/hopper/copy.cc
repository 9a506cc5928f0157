// Asynchronous copies of 4, 8 or 16 bytes from global to shared memory.
//
// A GPU may copy early or late, so a kernel must be right with both. A copy that lands early is done when it is
// issued. A copy that lands late is done in the wait that covers its group. Until then its destination is all
// 0xFF; if the destination holds anything else at the wait, another thread has written it meanwhile.
#include <stdint.h>
#include <string.h>

#include "kernels/executor/hopper.h"
#include "kernels/executor/threads/block.h"

namespace simt {
namespace {

void land(Copy& copy) {
  auto* const to = static_cast<unsigned char*>(copy.shared);
  if (copy.given) memcpy(to, copy.global, copy.given);
  memset(to + copy.given, 0, copy.bytes - copy.given);
  sanitizer::copied(to, copy.global, copy.given, copy.bytes);
  // The copy counts as a write of the thread. wgmma and TMA see it only after a fence for the async proxy. The
  // block's first operation of that proxy may come later, so every copy is recorded.
  if (copy.bytes == 16) note_generic_write(copy.shared, static_cast<int>(self().thread.linear % kWarpSize));
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
    land(queue.copies.back());
  } else {
    memset(shared, 0xFF, bytes);
    sanitizer::will_copy(shared, bytes);
  }
}

void copy_async16(void* shared, const void* global, bool valid, Place here) {
  copy_async(shared, global, 16, valid ? 16 : 0, here);
}

void copy_commit() { ++self().copies.open_group; }

void copy_wait(uint32_t groups_left) {
  Lane& me = self();
  CopyQueue& queue = me.copies;
  if (queue.empty()) return;
  const bool late = !me.thread.geometry->copies_early;
  while (!queue.empty()) {
    Copy& copy = queue.copies[queue.landed];
    if (copy.group + groups_left >= queue.open_group) break;
    if (late) {
      if (!is_poison(copy.shared, copy.bytes)) {
        fault(ATTN_REPORT_ASYNC, &me.thread, copy.here,
              "shared memory at %p was written while an asynchronous copy to it was under way", copy.shared);
      }
      land(copy);
    }
    ++queue.landed;
  }
  if (queue.empty()) {
    queue.copies.clear();
    queue.landed = 0;
  }
}

void check_copies(Block& b, Lane& lane) {
  const CopyQueue& queue = lane.copies;
  const Copy& copy = queue.copies[queue.landed];
  record_fault(b, ATTN_REPORT_ASYNC, lane.thread.index, copy.here,
               "the thread ended with %zu asynchronous copies that it never waited for%s",
               queue.copies.size() - queue.landed, copy.group == queue.open_group ? ", nor committed" : "");
}

}  // namespace simt
