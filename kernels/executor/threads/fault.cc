// A fault is recorded where it happens, and reported from the stack of the launch's caller.
#include <stdarg.h>
#include <stdio.h>

#include <bit>

#include "kernels/executor/threads/block.h"

namespace simt {
namespace {

void record(Block& b, attn_report_kind kind, Index thread, Place here, const char* format, va_list arguments) {
  Fault& fault = b.fault;
  if (fault.set) return;  // the first one is the cause
  fault.set = true;
  fault.kind = kind;
  fault.thread = thread;
  fault.here = here;
  fault.shared_bytes = 0;
  vsnprintf(fault.message, sizeof fault.message, format, arguments);
}

// A waiting lane, and a description of what it waits for.
struct Waiting {
  Lane* lane = nullptr;
  Place here{};
  char what[160];
  bool for_threads = true;  // false at an mbarrier: a thread that has left may have arrived there
};

bool find_waiting(Block& b, uint32_t from, Waiting* waiting) {
  for (uint32_t i = from; i < b.threads; ++i) {
    Lane& lane = b.lane(i);
    if (lane.done) continue;
    waiting->lane = &lane;
    waiting->for_threads = true;
    for (const Group& group : lane.warp->group) {
      if (!(group.arrived & lane.bit)) continue;
      waiting->here = group.here;
      snprintf(waiting->what, sizeof waiting->what, "in %s", group.op->name);
      return true;
    }
    waiting->here = lane.warp->barrier_place[std::countr_zero(lane.bit)];
    if (describe_mbarrier(b, lane, waiting->what, sizeof waiting->what)) {
      waiting->for_threads = false;
      return true;
    }
    if (describe_warpgroup(b, lane, waiting->what, sizeof waiting->what)) return true;
    for (uint32_t id = 0; id < kBarriers; ++id) {
      if (!(b.barriers[id].waiting[lane.warp->number] & lane.bit)) continue;
      snprintf(waiting->what, sizeof waiting->what, "at barrier %u (%u of %u are there)", id,
               b.barriers[id].arrived, b.barriers[id].expected);
      return true;
    }
  }
  return false;
}

}  // namespace

void record_fault(Block& b, attn_report_kind kind, Index thread, Place here, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  record(b, kind, thread, here, format, arguments);
  va_end(arguments);
}

void fault(attn_report_kind kind, const Thread* thread, Place here, const char* format, ...) {
  Block& b = running();
  va_list arguments;
  va_start(arguments, format);
  record(b, kind, thread->index, here, format, arguments);
  va_end(arguments);
  abandon(b);
}

void record_deadlock(Block& b) {
  Waiting first;
  if (!find_waiting(b, 0, &first)) return;
  const Index thread = first.lane->thread.index;
  for (uint32_t i = 0; i < b.threads; ++i) {
    if (!first.for_threads || !b.lane(i).done) continue;
    const Index gone = b.lane(i).thread.index;
    record_fault(b, ATTN_REPORT_DEADLOCK, thread, first.here,
                 "waits %s for ever: thread (%u,%u,%u) has left the kernel", first.what, gone.x, gone.y,
                 gone.z);
    return;
  }
  // The first thread that waits at another place tells the reader more than the number of waiting threads.
  Waiting other;
  for (uint32_t from = first.lane->thread.linear + 1; find_waiting(b, from, &other);
       from = other.lane->thread.linear + 1) {
    if (same(other.here, first.here)) continue;
    const Index index = other.lane->thread.index;
    record_fault(b, ATTN_REPORT_DEADLOCK, thread, first.here,
                 "waits %s for ever: thread (%u,%u,%u) waits %s at %s:%d", first.what, index.x, index.y,
                 index.z, other.what, other.here.file, other.here.line);
    return;
  }
  record_fault(b, ATTN_REPORT_DEADLOCK, thread, first.here, "waits %s for ever, and so do all the others",
               first.what);
}

void send_report(const Block& b, const attn_env* env) {
  if (!env->report) return;
  const Fault& fault = b.fault;
  attn_report report{};
  report.size = sizeof report;
  report.kind = fault.kind;
  report.block[0] = b.geometry.block.x;
  report.block[1] = b.geometry.block.y;
  report.block[2] = b.geometry.block.z;
  report.thread[0] = fault.thread.x;
  report.thread[1] = fault.thread.y;
  report.thread[2] = fault.thread.z;
  report.message = fault.message;
  report.file = fault.here.file;
  report.line = fault.here.line;
  report.shared_bytes = fault.shared_bytes;
  env->report(env->user, &report);
}

}  // namespace simt
