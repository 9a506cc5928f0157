#include "fuzz/batch/background.h"

#include <optional>
#include <utility>

#include "properties/judge/judge.h"
#include "properties/judge/trial.h"
#include "reference/agreement.h"

namespace attnfuzz {

Verdict judged_by_cpu(const Case& c, const Property& property, Target& target, const Calibration& calibration) {
  const auto fast = std::exchange(target.oracles, nullptr);
  Verdict v = judge(c, property, target, calibration);
  target.oracles = fast;
  return v;
}

Verdict confirmed(const Verdict& by_batch, Verdict v, const Case& c) {
  // In a large case the CPU's oracle judges a sample of the rows, while the device judges all rows.
  const bool all = v.sampled == by_batch.sampled;
  const auto fits = [&](int64_t rows, int64_t of) { return all ? rows == of : rows <= of; };
  const bool counted = fits(v.dead_rows, by_batch.dead_rows) &&
                       fits(v.uninformative_rows, by_batch.uninformative_rows) &&
                       fits(v.unconstrained_rows, by_batch.unconstrained_rows);
  // The oracles' errors may differ by kApart of the bound, and so may their bounds. So error/bound differs by
  // about 2 kApart, and 4 leaves room. Two runs of a kernel that is not deterministic may differ by a whole
  // bound.
  const double apart = v.plan.deterministic ? 4 * kApart : 1, more = v.worst - by_batch.worst;
  const bool no_failure = v.outcome == Outcome::kPass || v.outcome == by_batch.outcome;
  if (no_failure && counted && more <= apart && (!all || more >= -apart)) return v;
  if (v.outcome == Outcome::kNotJudged && !all)
    return by_batch;  // the device also judged the rows that were not sampled
  if (v.outcome == Outcome::kFail && v.kind != Kind::kWrong && v.kind != Kind::kNonFinite) return v;
  const std::string said = v.outcome == Outcome::kPass ? "a pass, worst error/bound " + digits(v.worst)
                                                       : std::string(to_string(v.kind)) + ": " + v.message;
  v.outcome = Outcome::kPass;
  fail(v, Kind::kOracle,
       "on the device nothing is wrong (worst error/bound " + digits(by_batch.worst) +
           "), the CPU's oracle says " + said +
           ": the kernel does not repeat itself, or the oracles do not agree. Judge without --batch");
  v.failing = c;
  return v;
}

BatchJudge::Background::Background(const Open& open, int count, const Calibration& calibration)
    : calibration_(calibration) {
  for (int n = 0; n < count; ++n) targets_.push_back(open());
  for (const auto& target : targets_) threads_.emplace_back([this, &target] { work(*target); });
}

BatchJudge::Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void BatchJudge::Background::work(Target& target) {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
    if (ending_) return;
    const Pending one = std::move(waiting_.front());
    waiting_.pop_front();
    ++busy_;
    lock.unlock();
    changed_.notify_all();
    std::optional<Deferred> found;
    std::exception_ptr thrown;
    try {
      const BatchCase& asked = one.asked;
      Verdict v =
          confirmed(one.by_batch, judged_by_cpu(asked.c, *asked.property, target, calibration_), asked.c);
      if (v.outcome == Outcome::kFail) found = {one.number, std::move(v)};
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    --busy_;
    if (found) deferred_.push_back(std::move(*found));
    if (thrown && !failed_) failed_ = thrown;
    changed_.notify_all();
  }
}

void BatchJudge::Background::add(Pending one) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.size() < kMostWaiting || failed_; });
  waiting_.push_back(std::move(one));
  changed_.notify_all();
}

std::vector<Deferred> BatchJudge::Background::take(bool all) {
  std::unique_lock lock(mutex_);
  if (all) changed_.wait(lock, [&] { return (waiting_.empty() && busy_ == 0) || failed_; });
  if (failed_) std::rethrow_exception(failed_);
  return std::exchange(deferred_, {});
}

}  // namespace attnfuzz
