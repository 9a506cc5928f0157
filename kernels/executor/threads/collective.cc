// Collectives of a warp. Each lane is checked when it arrives, and the last one computes the result. Lanes of
// the mask whose threads have left the kernel are not waited for, as in CUDA.
#include <string.h>

#include <bit>

#include "kernels/executor/threads/block.h"

namespace simt {
namespace {

[[noreturn, gnu::cold, gnu::noinline]] void diverged(Lane& me, const WarpOp& op, Place here,
                                                     const Group& group) {
  const int other = std::countr_zero(group.arrived);
  const Place there = group.here;
  if (&op != group.op && strcmp(op.name, group.op->name) != 0) {
    fault(ATTN_REPORT_DIVERGENCE, &me.thread, here, "%s, while lane %d of the warp waits in %s at %s:%d",
          op.name, other, group.op->name, there.file, there.line);
  }
  if (!same(here, there)) {
    fault(ATTN_REPORT_DIVERGENCE, &me.thread, here, "%s here, while lane %d of the warp is in one at %s:%d",
          op.name, other, there.file, there.line);
  }
  fault(ATTN_REPORT_DIVERGENCE, &me.thread, here, "%s with other template arguments than lane %d of the warp",
        op.name, other);
}

// The group for `mask` if a warp's lanes are in several groups: two halves are in different collectives, or one
// half is ahead of the other.
[[gnu::noinline]] Group& find_group(Lane& me, const WarpOp& op, uint32_t mask, uint32_t members, Place here) {
  Warp& warp = *me.warp;
  for (uint32_t rest = warp.active; rest; rest &= rest - 1) {
    Group& group = warp.group[std::countr_zero(rest)];
    if (group.mask == mask) return group;
    // Each side waits for the other to come with its own mask.
    if ((group.arrived & members) && (group.mask & me.bit)) {
      fault(ATTN_REPORT_DIVERGENCE, &me.thread, here,
            "%s with mask %08x, while lane %d waits in %s with mask %08x at %s:%d", op.name, mask,
            std::countr_zero(group.arrived & members), group.op->name, group.mask, group.here.file,
            group.here.line);
    }
  }
  return warp.group[std::countr_zero(~warp.active)];  // no more groups than lanes: one is free
}

[[gnu::noinline]] void complete(Lane& me, const WarpOp& op, uint32_t members, Place here) {
  Block& b = running();
  if (op.orders_memory) ++me.warp->fences;
  const Meeting meeting{me.warp->argument, members, here, &b.geometry};
  sanitizer::enter(&meeting, sizeof meeting);
  op.run(meeting);
  make_ready(b, *me.warp, members & ~me.bit);
}

}  // namespace

// If a group waits only for lanes that have left, the lane that leaves last computes its result.
void leave_collectives(Block&, Lane& me) {
  Warp& warp = *me.warp;
  for (uint32_t rest = warp.active; rest; rest &= rest - 1) {
    Group& group = warp.group[std::countr_zero(rest)];
    const uint32_t members = group.mask & warp.existing & ~warp.left;
    if (group.arrived != members) continue;
    group.arrived = 0;
    warp.active &= ~(1u << (&group - warp.group));
    complete(me, *group.op, members, group.here);
  }
}

void meet(const WarpOp& op, void* argument, uint32_t mask, Place here) {
  Lane& me = self();
  Warp& warp = *me.warp;
  const uint32_t members = mask & warp.existing & ~warp.left;
  if (!(members & me.bit)) [[unlikely]] {
    fault(ATTN_REPORT_DIVERGENCE, &me.thread, here, "%s with mask %08x, which leaves out the calling lane %d",
          op.name, mask, std::countr_zero(me.bit));
  }
  // Most warps have one group at a time, with the mask of all lanes.
  Group& first = warp.group[0];
  Group& group = warp.active == 0 || (warp.active == 1 && first.mask == mask)
                     ? first
                     : find_group(me, op, mask, members, here);
  if (!group.arrived) {
    warp.active |= 1u << (&group - warp.group);
    group.op = &op;
    group.mask = mask;
    group.here = here;
  } else if (group.op != &op || !same(group.here, here)) [[unlikely]] {
    diverged(me, op, here, group);
  }
  warp.argument[std::countr_zero(me.bit)] = argument;
  const uint32_t arrived = group.arrived | me.bit;
  char* tag = nullptr;
  if (op.orders_memory) {
    tag = &running().order_tags.warp[warp.number][warp.fences % 2];
    sanitizer::release(tag);
  }
  if (arrived == members) {
    group.arrived = 0;
    warp.active &= ~(1u << (&group - warp.group));
    complete(me, op, members, here);
  } else {
    group.arrived = arrived;
    wait_in_warp(running(), me);
  }
  if (tag) sanitizer::acquire(tag);
}

void active_lanes(uint32_t* lanes, Place here) {
  Lane& me = self();
  Warp& warp = *me.warp;
  const int lane = std::countr_zero(me.bit);
  warp.gathering |= me.bit;
  warp.gathering_at[lane] = here;
  wait_in_warp(running(), me);
  *lanes = warp.gathered[lane];
}

// Releases the lanes that wait at the lowest source line, because they may still come to the place where the
// others wait.
void let_gathered_go(Block& b, Warp& warp) {
  Place here = warp.gathering_at[std::countr_zero(warp.gathering)];
  for (uint32_t rest = warp.gathering; rest; rest &= rest - 1) {
    const Place there = warp.gathering_at[std::countr_zero(rest)];
    if (there.line < here.line) here = there;
  }
  uint32_t together = 0;
  for (uint32_t rest = warp.gathering; rest; rest &= rest - 1) {
    if (same(warp.gathering_at[std::countr_zero(rest)], here)) together |= rest & -rest;
  }
  for (uint32_t rest = together; rest; rest &= rest - 1) warp.gathered[std::countr_zero(rest)] = together;
  warp.gathering &= ~together;
  warp.polled = 0;
  make_ready(b, warp, together);
}

const Thread* lane_of_warp(int lane) {
  return &running().lane(self().warp->number * kWarpSize + static_cast<uint32_t>(lane)).thread;
}

}  // namespace simt
