// Many cases at once on a GPU that keeps them to itself: inputs are made there from the recipe, the kernel's
// results are judged there, beside it, in its own process and context, and what comes back is a count of
// what is wrong. So a case costs no copy, no wait and hardly any of the CPU.
//
//   BatchJudge judge(batch_target, target, calibration);
//   std::vector<Verdict> verdicts = judge.judge(asked);      // one each, in their order
//   puts(words(judge.use()).c_str());
//
// A relation compares several runs. It is tried with those that have been made so far (GivenRuns, trial.h);
// the one that it lacks is of the next batch, and so on until it lacks none. Of its runs outputs, expected
// values and bounds come back too; of a case by `reference` nothing does.
//
// With `open` what is judged both ways though nothing is wrong is judged in the background, while the device
// goes on: by threads with a target each, kernel, worker and all. What they find is deferred:
//
//   for (Deferred& failure : judge.deferred(false)) ...   // of cases that judge() let pass; true: once all are judged
//
// It is a sieve, believed only where it finds nothing. By the ordinary way (trial.h: laid out, judged by the
// CPU's oracle, one case in a worker at a time) go
//   - every case in which anything is wrong, and that verdict counts;
//   - the first one, and then one in a hundred, drawn by a seed, of which nothing is;
//   - what it does not do, counted with the reason (prepare.h);
//   - all of a batch whose kernels faulted, hung, or killed the worker: so the one that did is named.
// A case in which something is wrong and the ordinary way finds nothing may have suffered from another one
// of its batch, which wrote where it should not: then all of them go the ordinary way. If none fails there,
// or where the two differ on one in the hundred, that is a failure of its own, Kind::kOracle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "fuzz/batch/call.h"
#include "properties/judge/property.h"
#include "properties/judge/target.h"
#include "properties/judge/verdict.h"
#include "reference/model/calibration.h"

namespace attnfuzz {

// A target whose worker can judge batches.
class BatchTarget {
 public:
  virtual ~BatchTarget() = default;
  // Why there is none; empty: there is one.
  virtual std::string why_no_batch() = 0;
  // As batch::Device's: an empty string is success.
  virtual std::string plan(std::span<const batch::Call> calls, std::span<batch::Result> results) = 0;
  virtual std::string run(std::span<const batch::Call> calls, std::span<batch::Result> results) = 0;
  // What the last run read back for the calls that asked (Call::readback_at); valid until the next.
  virtual std::span<const std::byte> readback() = 0;
};

// A case to be judged: legal, and as its property has adapted it.
struct BatchCase {
  Case c;
  const Property* property;
};

struct BatchUse {
  uint64_t cleared = 0;                  // cases of which it found nothing wrong
  uint64_t both = 0;                     // of them, judged the ordinary way too
  uint64_t doubted = 0;                  // cases of which it did
  uint64_t lost = 0;                     // batches that ended with a fault
  std::map<std::string, uint64_t> left;  // cases it does not do, by reason
  double prepare_s = 0, plan_s = 0, run_s = 0, launch_s = 0, again_s = 0;  // launch_s: part of run_s
  void merge(const BatchUse& other);
  void take(const BatchUse& before);  // what came since then is left
};
// "950 of 1000 on the device, ..."
std::string words(const BatchUse& use);

// A failure of a case that had passed.
struct Deferred {
  uint64_t number;  // of the case, from the first that judge() was given on
  Verdict verdict;
};

class BatchJudge {
 public:
  using Open = std::function<std::unique_ptr<Target>()>;
  // `batch_target` and `target` are one worker's; `seed` draws what is judged both ways.
  BatchJudge(BatchTarget& batch_target, Target& target, const Calibration& calibration, uint64_t seed = 1);
  // And by so many threads. Throws what `open` does.
  BatchJudge(BatchTarget& batch_target, Target& target, const Calibration& calibration, uint64_t seed,
             const Open& open, int threads);
  ~BatchJudge();
  // At most batch::kMostCalls.
  std::vector<Verdict> judge(std::span<const BatchCase> asked);
  // What threads have found since it was last asked; `all`: once they have nothing more to judge.
  std::vector<Deferred> deferred(bool all);
  const BatchUse& use() const { return use_; }

 private:
  struct Background;
  struct Item;
  struct Batch;
  bool drawn();
  void ordinary(Batch& batch, size_t index, bool by_cpu_alone = true);
  void leave(Batch& batch, size_t index, const std::string& why);
  // Does what each item lacks; in batch.open those remain that lack more.
  void round(Batch& batch);
  // The items that can be done at once, as planned.
  std::vector<batch::Call> planned(Batch& batch, std::vector<Item>& items, std::string* lost);
  void lost(Batch& batch, const std::vector<Item>& items, const std::string& why);
  // One of which nothing was wrong on the device; `readback` by its last run.
  void tried(Batch& batch, Item item);

  BatchTarget& batch_target_;
  Target& target_;
  const Calibration& calibration_;
  SplitMix64 random_;
  uint64_t cases_ = 0;  // given to judge() before
  BatchUse use_;
  std::unique_ptr<Background> background_;
};

}  // namespace attnfuzz
