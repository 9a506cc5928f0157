// The warpgroups of a block, and the registers that they hold (warpgroup.h).
#include "kernels/executor/hopper/warpgroup.h"

#include <algorithm>

namespace simt {

constexpr uint32_t kRegisters = 65536;

Warpgroup& warpgroup_of(Block& b, const Lane& me, const char* word, Place here) {
  const uint32_t number = me.thread.linear / kMembers;
  if ((number + 1) * kMembers > b.threads) {
    fault(ATTN_REPORT_DIVERGENCE, &me.thread, here, "%s in a warpgroup of less than 128 threads", word);
  }
  if (b.warpgroups.size() <= number) {
    const sanitizer::Unseen books;
    while (b.warpgroups.size() <= number) b.warpgroups.push_back(new Warpgroup);  // for the OS thread's life
  }
  b.asynchronous = true;
  return *b.warpgroups[number];
}

void set_registers(uint32_t count, bool increase, Place here) {
  Block& b = running();
  const Thread* me = &self().thread;
  Warpgroup& wg = warpgroup_of(b, self(), "set_registers", here);
  if (count < 24 || count > 256 || count % 8 != 0) {
    fault(ATTN_REPORT_DIVERGENCE, me, here, "%u registers a thread: a multiple of 8 in 24..256", count);
  }
  if (wg.askers && (wg.asked != count || wg.increases != increase)) {
    fault(ATTN_REPORT_DIVERGENCE, me, here,
          "%u registers a thread, where others of the warpgroup asked for %u at %s:%d", count, wg.asked,
          wg.asked_here.file, wg.asked_here.line);
  }
  wg.asked = count;
  wg.increases = increase;
  wg.asked_here = here;
  if (++wg.askers < kMembers) return;
  wg.askers = 0;
  wg.registers = count;
}

void check_warpgroups(Block& b) {
  uint32_t held = 0;
  const Warpgroup* taker = nullptr;
  uint32_t taker_number = 0;
  for (uint32_t i = 0; i < b.warpgroups.size(); ++i) {
    const Warpgroup& wg = *b.warpgroups[i];
    if (wg.askers) {
      record_fault(b, ATTN_REPORT_DIVERGENCE, b.lane(i * kMembers).thread.index, wg.asked_here,
                   "%u of the 128 threads of a warpgroup asked for %u registers", wg.askers, wg.asked);
      return;
    }
    if (wg.registers && wg.increases) taker = &wg, taker_number = i;
  }
  if (!taker) return;
  // A warpgroup that did not ask has the registers that it was launched with, at most this number.
  const uint32_t launched = std::min(kRegisters / b.threads / 8 * 8, 255u);
  for (uint32_t i = 0; i < b.threads / kMembers; ++i) {
    const bool asked = i < b.warpgroups.size() && b.warpgroups[i]->registers;
    held += kMembers * (asked ? b.warpgroups[i]->registers : launched);
  }
  if (held <= launched * b.threads) return;
  record_fault(b, ATTN_REPORT_DEADLOCK, b.lane(taker_number * kMembers).thread.index, taker->asked_here,
               "the block's warpgroups hold %u registers together, of %u that it was launched with: it would "
               "wait for ever",
               held, launched * b.threads);
}

void reset_warpgroups(Block& b) {
  for (Warpgroup* wg : b.warpgroups) {
    wg->first = wg->begun = wg->complete = wg->computed = wg->waited = wg->awaited = 0;
    for (uint32_t& lanes : wg->waiting) lanes = 0;
    wg->registers = wg->askers = 0;
    wg->sums.clear();
  }
}

}  // namespace simt
