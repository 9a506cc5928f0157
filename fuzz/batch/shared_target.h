// Shares one target, and so one worker and one CUDA context, between the threads of a process.
// Contexts of several processes share a GPU by time slices, so a worker for each thread would slow
// all of them down.
//
//   SharedTarget shared(open());                 // it and this thread outlive the shares
//   std::unique_ptr<Target> mine = shared.share();  // one for each thread; a BatchTarget too
//   judge(c, property, *mine, calibration);         // takes a turn for itself
//   const Turn turn = mine->turn();                 // everything else needs one
//
// A share throws std::logic_error if its thread uses the worker or the arena without a turn. A
// thread that has had a turn may have started a new worker, and that worker ends with the thread.
// So the threads must end together, once all are done.
#pragma once

#include <memory>

#include "fuzz/batch/batch_judge.h"
#include "properties/judge/target/target.h"

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
