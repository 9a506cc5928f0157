// Keeps several batches in flight on one worker, each with a thread. While one batch uses the
// device, the CPU prepares and compares the others. Verdicts come in the order in which the batches
// were added.
//
//   BatchPipeline pipeline(shared_target, calibration, seed, threads);
//   while (more()) {
//     pipeline.add(draw());                        // returns at once
//     if (pipeline.full()) take(pipeline.next());  // waits for the batch that was added first
//   }
//   while (pipeline.size() > 0) take(pipeline.next());
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "fuzz/batch/batch_judge.h"
#include "fuzz/batch/shared_target.h"

namespace attnfuzz {

class BatchPipeline {
 public:
  // `shared`, `calibration` and `own` must outlive this. `seed` and `own`: see BatchJudge.
  BatchPipeline(SharedTarget& shared, const Calibration& calibration, uint64_t seed, int threads,
                OwnWorkers* own = nullptr);
  // Batches that no thread has begun are dropped.
  ~BatchPipeline();
  BatchPipeline(const BatchPipeline&) = delete;
  BatchPipeline& operator=(const BatchPipeline&) = delete;

  void add(std::vector<BatchCase> asked);
  // The verdicts of the earliest batch, one for each case, in their order. Throws what its judge threw.
  std::vector<Verdict> next();
  // The number of batches that were added and not yet taken by next().
  size_t size() const { return batches_.size(); }
  // True if every thread has a batch, and another one is ready.
  bool full() const { return batches_.size() > threads_.size(); }
  // The sums over the batches that are done.
  BatchUse use() const;

 private:
  struct Batch {
    std::vector<BatchCase> asked;
    std::vector<Verdict> verdicts = {};
    std::exception_ptr failed = {};
    bool begun = false, done = false;
  };
  void work(Target& share, uint64_t seed);

  const Calibration& calibration_;
  OwnWorkers* const own_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> batches_;  // only the thread that adds and takes changes its length
  BatchUse use_;
  bool ending_ = false;
  std::vector<std::unique_ptr<Target>> shares_;
  std::vector<std::thread> threads_;
};

}  // namespace attnfuzz
