// Threads that judge a sample of the passing batch cases again with the CPU's oracle, while the
// device continues. Each thread has its own target, kernel and worker.
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

// Judges a case the ordinary way, with only the CPU's oracle.
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
