// Publishes how far the launches of this process have come, for a program that judges whether a call hangs.
//
// The program gives the executor the place to write to, in memory that another process may read:
//
//   simt::publish_progress(&wire.progress);
//
// The unit is a block: the executor runs blocks one after the other, and does not publish progress within a
// block.
#pragma once

#include <stdint.h>

#include <atomic>

namespace simt {

struct Progress {
  std::atomic<uint64_t> done = 0;    // ended blocks of the running launch, or of the last launch if none runs
  std::atomic<uint64_t> blocks = 0;  // all blocks of that launch
  std::atomic<uint64_t> ended = 0;   // ended blocks of all launches since the program set it to 0
};
static_assert(std::atomic<uint64_t>::is_always_lock_free, "other processes read it");

// With null, the executor publishes nothing; this is the initial state.
__attribute__((visibility("default"))) void publish_progress(Progress* to);

}  // namespace simt
