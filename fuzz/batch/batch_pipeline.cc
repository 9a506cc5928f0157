#include "fuzz/batch/batch_pipeline.h"

#include <algorithm>
#include <utility>

namespace attnfuzz {

BatchPipeline::BatchPipeline(SharedTarget& shared, const Calibration& calibration, uint64_t seed, int threads,
                             OwnWorkers* own)
    : calibration_(calibration), own_(own) {
  for (int n = 0; n < threads; ++n) shares_.push_back(shared.share());
  for (int n = 0; n < threads; ++n)
    threads_.emplace_back([this, &share = *shares_[static_cast<size_t>(n)],
                           own_seed = seed + static_cast<uint64_t>(n)] { work(share, own_seed); });
}

BatchPipeline::~BatchPipeline() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void BatchPipeline::work(Target& share, uint64_t seed) {
  BatchJudge judge(dynamic_cast<BatchTarget&>(share), share, calibration_, seed, own_);
  std::unique_lock lock(mutex_);
  for (;;) {
    auto batch = batches_.end();
    changed_.wait(lock, [&] {
      batch = std::ranges::find(batches_, false, &Batch::begun);
      return ending_ || batch != batches_.end();
    });
    if (ending_) return;
    Batch& mine = *batch;  // stays in place while others are added behind it and taken before it
    mine.begun = true;
    const BatchUse before = judge.use();
    lock.unlock();
    std::vector<Verdict> verdicts;
    std::exception_ptr failed;
    try {
      verdicts = judge.judge(mine.asked);
    } catch (...) {
      failed = std::current_exception();
    }
    lock.lock();
    mine.verdicts = std::move(verdicts);
    mine.failed = failed;
    mine.done = true;
    BatchUse now = judge.use();
    now.take(before);
    use_.merge(now);
    changed_.notify_all();
  }
}

void BatchPipeline::add(std::vector<BatchCase> asked) {
  {
    const std::lock_guard lock(mutex_);
    batches_.push_back({std::move(asked)});
  }
  changed_.notify_all();
}

std::vector<Verdict> BatchPipeline::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return batches_.front().done; });
  Batch first = std::move(batches_.front());
  batches_.pop_front();
  if (first.failed) std::rethrow_exception(first.failed);
  return std::move(first.verdicts);
}

BatchUse BatchPipeline::use() const {
  const std::lock_guard lock(mutex_);
  return use_;
}

}  // namespace attnfuzz
