// Threads that judge again, with the CPU's oracle, cases that a batch let pass, while the device goes on. Each has a
// target of its own, with its own kernel and worker.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "fuzz/batch/batch_judge.h"

namespace attnfuzz {

// Judges a case by the ordinary way and the CPU's oracle alone.
Verdict judged_by_cpu(const Case& c, const Property& property, Target& target, const Calibration& calibration);
// Compares a batch's verdict with the CPU's verdict `v`. If they disagree, the result is a failure of Kind::kOracle.
Verdict confirmed(const Verdict& by_batch, Verdict v, const Case& c);

struct BatchJudge::Background {
  struct Pending {
    uint64_t number;
    BatchCase asked;
    Verdict by_batch;
  };
  // At most this many cases wait. If the batches are faster than these threads, add() waits.
  static constexpr size_t kMostWaiting = 64;

  Background(const Open& open, int count, const Calibration& calibration);
  ~Background();
  void add(Pending one);
  std::vector<Deferred> take(bool all);

 private:
  void work(Target& target);

  const Calibration& calibration_;
  std::vector<std::unique_ptr<Target>> targets_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Pending> waiting_;
  std::vector<Deferred> deferred_;
  std::exception_ptr failed_;
  int busy_ = 0;
  bool ending_ = false;
};

}  // namespace attnfuzz
