#include "fuzz/batch/own_workers.h"

#include <utility>

#include "properties/judge/stopwatch.h"

namespace attnfuzz {

OwnWorkers::Lent::~Lent() {
  {
    const std::lock_guard lock(of_.mutex_);
    of_.free_.push_back(std::move(target_));
  }
  of_.given_back_.notify_one();
}

OwnWorkers::Lent OwnWorkers::lend() {
  std::unique_lock lock(mutex_);
  given_back_.wait(lock, [&] { return !free_.empty() || opened_ < most_; });
  if (!free_.empty()) {
    std::unique_ptr<Target> target = std::move(free_.back());
    free_.pop_back();
    return {*this, std::move(target)};
  }
  ++opened_;
  lock.unlock();
  try {
    return {*this, open_()};
  } catch (...) {
    lock.lock();
    --opened_;
    lock.unlock();
    given_back_.notify_one();
    throw;
  }
}

OracleUse OwnWorkers::oracle_use() const {
  const std::lock_guard lock(mutex_);
  OracleUse use;
  for (const std::unique_ptr<Target>& target : free_) {
    if (target->oracles) use.merge(target->oracles->use());
  }
  return use;
}

Verdict judged_on_own(OwnWorkers* own, Target& shared, const std::function<Verdict(Target&)>& judged,
                      double* waited) {
  if (!own) return judged(shared);
  const OwnWorkers::Lent target = [&] {
    double ignored = 0;
    Stopwatch watch(waited ? *waited : ignored);
    return own->lend();
  }();
  target->on_run = shared.on_run;
  Verdict v = judged(*target);
  target->on_run = {};
  return v;
}

}  // namespace attnfuzz
