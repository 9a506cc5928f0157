// One target, and so one worker and one context on the device, for several threads of a process. Contexts of several
// processes share a GPU by slices of time, so a worker for each thread makes all of them slow.
//
//   SharedTarget shared(open());                 // lives longer than the shares, as does the thread that opened it
//   std::unique_ptr<Target> mine = shared.share();  // one for each thread; a BatchTarget too
//   judge(c, property, *mine, calibration);         // takes a turn by itself
//   const Turn turn = mine->turn();                 // everything else needs one
//
// A share throws std::logic_error if its thread uses the worker or the arena without a turn. A thread that has had a
// turn may have started a new worker, and the worker ends with that thread. So threads end together, once all are done.
#pragma once

#include <memory>

#include "fuzz/batch/batch_judge.h"
#include "properties/judge/target.h"

namespace attnfuzz {

class SharedTarget {
 public:
  // Throws std::runtime_error if the target judges no batches.
  explicit SharedTarget(std::unique_ptr<Target> target);
  ~SharedTarget();
  std::unique_ptr<Target> share();

 private:
  class Share;
  std::unique_ptr<Target> target_;
  BatchTarget& batches_;
  Turns turns_;
};

}  // namespace attnfuzz
