// Judges many cases at once, entirely on a GPU. The GPU makes the inputs from the recipe and judges
// the results, in the kernel's own process and CUDA context. Only counts of errors come back. So a
// case needs no copy, no wait and hardly any CPU time.
//
//   BatchJudge judge(batch_target, target, calibration);
//   std::vector<Verdict> verdicts = judge.judge(asked);      // one each, in their order
//   puts(words(judge.use()).c_str());
//
// A relation compares several runs. It is evaluated on the runs made so far (GivenRuns, trial.h). If it needs a
// further run, that run joins the next batch, until no run is missing. For a relation, the
// outputs, expected values and bounds of its runs are read back too. For a case of the property
// `reference` nothing is read back.
//
// Some cases without an error are judged both ways. If `open` is given, background threads do the
// second judging while the device goes on. Each thread has a target of its own, with its own kernel
// and worker. Their failures come later:
//
//   for (Deferred& failure : judge.deferred(false)) ...   // of passed cases; true: waits
//
// A batch only filters: its verdict counts only if it finds no error. These cases are judged the ordinary way
// (trial.h: one case at a time in a worker, with the CPU's oracle):
//   - every case with an error; the ordinary verdict then counts;
//   - among the cases without an error, the first one, and then one in a hundred, drawn by a seed; of the large ones,
//     which take the CPU seconds, one in a thousand;
//   - cases that a batch cannot judge, counted by reason (prepare.h);
//   - all cases of a batch in which a kernel faulted, hung or killed the worker, to find the cause. If none of them
//     fails, the batch runs again, and its failure says how often it ended badly;
//   - all cases of a batch for which the device had too little memory. They are counted as left, and the batch is
//     not lost.
// A case may fail in the batch and pass the ordinary way. Then another case of the batch may have written into
// its memory, so all cases of the batch are judged the ordinary way. If none of them fails, the case counts as
// a failure of Kind::kOracle, which says what the device found wrong. A case that was judged both ways also
// fails with Kind::kOracle if the two verdicts disagree.
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
#include "fuzz/batch/device/call.h"
#include "fuzz/batch/own_workers.h"
#include "properties/judge/property.h"
#include "properties/judge/target/target.h"
#include "properties/judge/verdict.h"
#include "reference/model/calibration.h"

namespace attnfuzz {

// A target whose worker can judge batches.
class BatchTarget {
 public:
  virtual ~BatchTarget() = default;
  // Why this target cannot judge batches; empty if it can.
  virtual std::string why_no_batch() = 0;
  // Like the functions of batch::Device. An empty string means success.
  virtual std::string plan(std::span<const batch::Call> calls, std::span<batch::Result> results) = 0;
  virtual std::string run(std::span<const batch::Call> calls, std::span<batch::Result> results) = 0;
  // The bytes that the last run read back, for the calls that asked (Call::readback_at). Valid until the next
  // run.
  virtual std::span<const std::byte> readback() = 0;
};

// A case to be judged, as its property has adapted it. An illegal one is left to the ordinary way.
struct BatchCase {
  Case c;
  const Property* property;
};

struct BatchUse {
  static constexpr const char *kTwice = "judged twice", *kDoubted = "doubted", *kLost = "lost to a fault";
  uint64_t cleared = 0;                  // cases without an error in their batch
  uint64_t both = 0;                     // cases of `cleared` that were judged the ordinary way too
  uint64_t doubted = 0;                  // cases with an error in their batch
  uint64_t lost = 0;                     // batches that ended with a fault
  std::map<std::string, uint64_t> left;  // cases that a batch cannot judge, by reason
  double prepare_s = 0, plan_s = 0, run_s = 0, again_s = 0;
  // Parts of run_s: mapping memory, copying the calls, launching them, and waiting until they have ended.
  double map_s = 0, send_s = 0, launch_s = 0, flight_s = 0;
  double wait_s = 0;      // of a batch for its turn on the shared worker
  double own_wait_s = 0;  // of a case for a worker of its own
  // again_s by reason: those of `left`, kTwice, kDoubted, kLost. Background threads are not in it.
  std::map<std::string, double> again_by;
  void merge(const BatchUse& other);
  void take(const BatchUse& before);  // subtracts an earlier state: the newer counts remain

 private:
  void add(const BatchUse& other, int sign);
};
// "950 of 1000 on the device, ..."
std::string words(const BatchUse& use);

// A background thread's failure of a case that had passed in its batch.
struct Deferred {
  uint64_t number;  // of the case; the first case of the first judge() is 0
  Verdict verdict;
};

// One of so many cases of this size that a batch clears is judged the ordinary way too.
uint64_t one_judged_twice_of(const Problem& p);

class BatchJudge {
 public:
  using Open = std::function<std::unique_ptr<Target>()>;
  // `batch_target` and `target` belong to one worker, which may be shared (shared_target.h). `seed` draws the
  // cases that are judged both ways. `own`: workers for the cases that are judged the ordinary way, so that
  // these do not block the shared worker; it must outlive this.
  BatchJudge(BatchTarget& batch_target, Target& target, const Calibration& calibration, uint64_t seed = 1,
             OwnWorkers* own = nullptr);
  // Also starts `threads` background threads. Throws what `open` throws.
  BatchJudge(BatchTarget& batch_target, Target& target, const Calibration& calibration, uint64_t seed,
             const Open& open, int threads);
  ~BatchJudge();
  // Judges at most batch::kMostCalls cases.
  std::vector<Verdict> judge(std::span<const BatchCase> asked);
  // The failures that the threads have found since the last call. If `all`, waits until they have judged
  // everything.
  std::vector<Deferred> deferred(bool all);
  const BatchUse& use() const { return use_; }

 private:
  struct Background;
  struct Item;
  struct Batch;
  struct Round;
  struct Again;
  // Wait for the shared worker, and for a worker of one's own.
  Turn turn();
  OwnWorkers::Lent lend();
  // True if a case without an error is judged the ordinary way too.
  bool drawn(const Case& c);
  void ordinary(Batch& batch, size_t index, const std::string& why, bool by_cpu_alone = true);
  void leave(Batch& batch, size_t index, const std::string& why);
  void doubt(Batch& batch, size_t index, std::string found);
  // Gets the plans that properties check. If a plan fails its check, the case is judged the
  // ordinary way.
  void ask(Batch& batch);
  // Makes the next run of each item. Items that need a further run, or for which there was no room, remain in
  // batch.open.
  void round(Batch& batch);
  // The steps of a round. plan(), run() and take() need the turn.
  void prepare(Batch& batch, Round& round);
  void plan(Batch& batch, Round& round);
  void run(Round& round);
  void take(Round& round);
  // Adds the plans to the calls of one item. Returns why a batch cannot judge the item; empty if it
  // can.
  std::string add_plans(Item& item, std::span<batch::Call> calls, std::span<const batch::Result> planned) const;
  void lost(Batch& batch, Round& round);
  Again run_again(Round& round);
  // Continues an item that has no run yet, or whose last run had nothing wrong on the device.
  void tried(Batch& batch, Item item);

  BatchTarget& batch_target_;
  Target& target_;
  const Calibration& calibration_;
  SplitMix64 random_;
  uint64_t cases_ = 0;  // given to judge() before
  BatchUse use_;
  OwnWorkers* const own_;
  std::unique_ptr<Background> background_;
};

}  // namespace attnfuzz
