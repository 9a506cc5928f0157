// Targets with their own workers, for the cases that no batch judges, and for the many questions of some
// properties. On the worker that the threads of a process share (shared_target.h), such a case would block
// their batches, and it takes as long as dozens of cases in a batch.
//
//   OwnWorkers own(open, 2);       // each is opened when it is first needed
//   {
//     const OwnWorkers::Lent target = own.lend();  // waits until one is free
//     judge(c, property, *target, calibration);
//   }                                              // given back
//
// A worker ends with the thread that started it. So all threads that borrow targets must end together, when all
// are done.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "properties/judge/oracles.h"
#include "properties/judge/target/target.h"
#include "properties/judge/verdict.h"

namespace attnfuzz {

class OwnWorkers {
 public:
  using Open = std::function<std::unique_ptr<Target>()>;
  class Lent {
   public:
    Lent(OwnWorkers& of, std::unique_ptr<Target> target) : of_(of), target_(std::move(target)) {}
    ~Lent();
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;
    Target& operator*() const { return *target_; }
    Target* operator->() const { return target_.get(); }

   private:
    OwnWorkers& of_;
    std::unique_ptr<Target> target_;
  };

  OwnWorkers(Open open, int most) : open_(std::move(open)), most_(most) {}
  // Throws what `open` throws.
  Lent lend();
  // Adds up what the oracles of all targets have judged. Targets that are lent out do not count.
  OracleUse oracle_use() const;

 private:
  const Open open_;
  const int most_;
  mutable std::mutex mutex_;
  std::condition_variable given_back_;
  std::vector<std::unique_ptr<Target>> free_;
  int opened_ = 0;
};

// Calls `judged` on a target that `own` lends, and returns its verdict. shared.on_run reports the runs. If
// `own` is null, calls `judged` on `shared`. Adds the seconds until a target was free to *waited.
Verdict judged_on_own(OwnWorkers* own, Target& shared, const std::function<Verdict(Target&)>& judged,
                      double* waited = nullptr);

}  // namespace attnfuzz
