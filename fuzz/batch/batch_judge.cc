#include "fuzz/batch/batch_judge.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fuzz/batch/background.h"
#include "fuzz/batch/given.h"
#include "fuzz/batch/prepare.h"
#include "properties/judge/judge.h"
#include "properties/judge/stopwatch.h"
#include "properties/judge/trial.h"

namespace attnfuzz {
namespace {

// True if the device found nothing wrong with the call.
bool clean(const batch::Result& result) {
  const batch::Counts& n = result.counts;
  return result.status == ATTN_OK && !result.reported &&
         n.outside + n.redzones + n.inputs + n.unwritten + n.repeated == 0 && n.unknown == 0;
}

}  // namespace

void BatchUse::merge(const BatchUse& other) {
  cleared += other.cleared;
  both += other.both;
  doubted += other.doubted;
  lost += other.lost;
  for (const auto& [reason, n] : other.left) left[reason] += n;
  prepare_s += other.prepare_s;
  plan_s += other.plan_s;
  run_s += other.run_s;
  launch_s += other.launch_s;
  again_s += other.again_s;
}

void BatchUse::take(const BatchUse& before) {
  cleared -= before.cleared;
  both -= before.both;
  doubted -= before.doubted;
  lost -= before.lost;
  for (const auto& [reason, n] : before.left) left[reason] -= n;
  prepare_s -= before.prepare_s;
  plan_s -= before.plan_s;
  run_s -= before.run_s;
  launch_s -= before.launch_s;
  again_s -= before.again_s;
}

std::string words(const BatchUse& use) {
  std::string text = "judged on the device beside the kernel: " + std::to_string(use.cleared) + " cases, " +
                     std::to_string(use.both) + " of them by the CPU's oracle too";
  if (use.doubted > 0) text += "; doubted: " + std::to_string(use.doubted);
  if (use.lost > 0) text += "; batches lost to a fault: " + std::to_string(use.lost);
  for (const auto& [reason, n] : use.left) text += "; left, " + reason + ": " + std::to_string(n);
  const double all = use.prepare_s + use.plan_s + use.run_s + use.again_s;
  const auto share = [&](double s) {
    return std::to_string(std::lround(100 * s / std::max(all, 1e-9))) + " %";
  };
  return text + "; of the time: made ready " + share(use.prepare_s) + ", planned " + share(use.plan_s) +
         ", on the device " + share(use.run_s) + ", the ordinary way " + share(use.again_s);
}

// A case under way: `next` is the run that it lacks.
struct BatchJudge::Item {
  size_t index;
  Case next;
  std::vector<std::unique_ptr<GivenRun>> runs = {};
  std::vector<Assumption> assumptions = {};  // of the next
};

struct BatchJudge::Batch {
  std::span<const BatchCase> asked;
  uint64_t first;  // number of the first case
  std::vector<Verdict> verdicts;
  std::vector<bool> judged;           // by the ordinary way
  std::vector<Item> open = {};        // lacking a run
  std::vector<size_t> innocent = {};  // doubted here, and right by themselves
};

BatchJudge::BatchJudge(BatchTarget& batch_target, Target& target, const Calibration& calibration, uint64_t seed)
    : batch_target_(batch_target), target_(target), calibration_(calibration), random_{seed} {}

BatchJudge::BatchJudge(BatchTarget& batch_target, Target& target, const Calibration& calibration, uint64_t seed,
                       const Open& open, int threads)
    : BatchJudge(batch_target, target, calibration, seed) {
  if (threads > 0) background_ = std::make_unique<Background>(open, threads, calibration_);
}

BatchJudge::~BatchJudge() = default;

std::vector<Deferred> BatchJudge::deferred(bool all) {
  if (!background_) return {};
  Stopwatch watch(use_.again_s);
  return background_->take(all);
}

bool BatchJudge::drawn() {
  const uint64_t bits = random_();
  return use_.cleared == 0 || bits % 100 == 0;
}

// `by_cpu_alone`: by the CPU's oracle alone, also where the target has a fast one.
void BatchJudge::ordinary(Batch& batch, size_t index, bool by_cpu_alone) {
  Stopwatch watch(use_.again_s);
  const auto& [c, property] = batch.asked[index];
  batch.verdicts[index] = by_cpu_alone ? judged_by_cpu(c, *property, target_, calibration_)
                                       : attnfuzz::judge(c, *property, target_, calibration_);
  batch.judged[index] = true;
}

void BatchJudge::leave(Batch& batch, size_t index, const std::string& why) {
  ++use_.left[why];
  ordinary(batch, index, false);
}

std::vector<batch::Call> BatchJudge::planned(Batch& batch, std::vector<Item>& items, std::string* lost) {
  std::vector<batch::Call> calls;
  std::vector<Item> ready;
  std::vector<std::pair<size_t, std::string>> left;
  const Property* reference = find_property("reference");
  {
    Stopwatch watch(use_.prepare_s);
    for (Item& item : items) {
      std::string why;
      auto call = batch::prepare(item.next, target_.info().backend, &why);
      if (call && (call->problem.features & ~target_.info().features) != 0) {
        why = "a kind of problem that the kernel knows nothing of";
        call.reset();
      }
      if (call) {
        calls.push_back(*call);
        ready.push_back(std::move(item));
      } else {
        left.emplace_back(item.index, why);
      }
    }
  }
  items = std::move(ready);
  for (const auto& [index, why] : left) leave(batch, index, why);
  if (calls.empty()) return calls;
  left.clear();
  std::vector<batch::Result> results(calls.size());
  {
    Stopwatch watch(use_.plan_s);
    *lost = batch_target_.plan(calls, results);
  }
  if (!lost->empty()) return calls;
  ready.clear();
  {
    Stopwatch watch(use_.prepare_s);
    uint64_t readback = 0;
    size_t kept = 0;
    for (size_t n = 0; n < calls.size(); ++n) {
      Item& item = items[n];
      std::string why = "a plan that is a refusal";
      const bool ok =
          results[n].status == ATTN_OK && !results[n].reported &&
          batch::add_plan(item.next, results[n].plan, calibration_, &calls[n], &item.assumptions, &why);
      const bool tells = batch.asked[item.index].property != reference;
      const uint64_t more = ok && tells ? batch::Readback(calls[n]).sent() : 0;
      if (ok && readback + more > batch::kReadbackBytes && readback > 0) {
        batch.open.push_back(std::move(item));  // in the next round
        continue;
      }
      if (!ok || more > batch::kReadbackBytes) {
        left.emplace_back(item.index, ok ? "results of more than 32 MiB" : why);
        continue;
      }
      if (tells) calls[n].readback_at = std::exchange(readback, readback + more);
      calls[kept++] = calls[n];
      ready.push_back(std::move(item));
    }
    calls.resize(kept);
  }
  items = std::move(ready);
  for (const auto& [index, why] : left) leave(batch, index, why);
  return calls;
}

void BatchJudge::lost(Batch& batch, const std::vector<Item>& items, const std::string& why) {
  // Each case is judged by itself, which shows whose fault it was.
  ++use_.lost;
  bool failed = false;
  for (const Item& item : items) {
    ordinary(batch, item.index);
    failed |= batch.verdicts[item.index].outcome == Outcome::kFail;
  }
  if (failed || items.empty()) return;
  Verdict& first = batch.verdicts[items[0].index];
  first.outcome = Outcome::kPass;
  fail(first, Kind::kCrash,
       "a batch of " + std::to_string(items.size()) + " cases, of which this is the first, ended with: " + why +
           "; one after the other none of them does");
  first.failing = batch.asked[items[0].index].c;
}

void BatchJudge::tried(Batch& batch, Item item) {
  const auto& [c, property] = batch.asked[item.index];
  GivenRuns given = {item.runs, {}};
  Trial trial(c, target_, calibration_, given);
  trial.verdict().property = property->name;
  property->check(trial);
  if (given.lacking) {
    item.next = std::move(*given.lacking);
    batch.open.push_back(std::move(item));
    return;
  }
  Verdict& v = batch.verdicts[item.index];
  v = std::move(trial.verdict());
  if (v.outcome == Outcome::kFail) {
    ++use_.doubted;
    ordinary(batch, item.index);
    if (v.outcome != Outcome::kFail) batch.innocent.push_back(item.index);
  } else if (v.outcome != Outcome::kPass) {
    leave(batch, item.index, "a relation that says nothing");
  } else {
    weigh_rows(v);
    const bool also = drawn();
    ++use_.cleared;
    use_.both += also;
    if (!also) return;
    if (background_) {
      Stopwatch watch(use_.again_s);
      background_->add({batch.first + item.index, batch.asked[item.index], v});
    } else {
      const Verdict by_batch = v;
      ordinary(batch, item.index);
      v = confirmed(by_batch, std::move(v), c);
    }
  }
}

void BatchJudge::round(Batch& batch) {
  std::vector<Item> items = std::exchange(batch.open, {});
  std::string why;
  const std::vector<batch::Call> calls = planned(batch, items, &why);
  std::vector<batch::Result> results(calls.size());
  if (why.empty() && !calls.empty()) {
    Stopwatch watch(use_.run_s);
    why = batch_target_.run(calls, results);
    if (why.empty())
      for (const batch::Result& result : results) use_.launch_s += result.launch_s;
  }
  if (!why.empty()) return lost(batch, items, why);
  // First take what the runs read back. Judging the ordinary way, below, may replace the worker, and the readback would
  // be lost.
  std::vector<size_t> doubted, refused;
  std::vector<Item> sound;
  {
    Stopwatch watch(use_.prepare_s);
    for (size_t n = 0; n < calls.size(); ++n) {
      Item& item = items[n];
      std::unique_ptr<GivenRun> run;
      if (results[n].status == ATTN_UNSUPPORTED) {
        refused.push_back(item.index);
        continue;
      }
      if (clean(results[n]))
        run = batch::given_run(item.next, calls[n], results[n], std::move(item.assumptions),
                               batch_target_.readback());
      if (run)
        item.runs.push_back(std::move(run)), sound.push_back(std::move(item));
      else
        doubted.push_back(item.index);
    }
  }
  // A hosted kernel may refuse when it runs (hosted.h). Any other kernel should have refused in plan(); the ordinary
  // way reports that.
  for (const size_t index : refused) leave(batch, index, "a refusal as it ran");
  for (const size_t index : doubted) {
    ++use_.doubted;
    ordinary(batch, index);
    if (batch.verdicts[index].outcome != Outcome::kFail) batch.innocent.push_back(index);
  }
  for (Item& item : sound) tried(batch, std::move(item));
}

std::vector<Verdict> BatchJudge::judge(std::span<const BatchCase> asked) {
  Batch batch = {asked, std::exchange(cases_, cases_ + asked.size()), std::vector<Verdict>(asked.size()),
                 std::vector<bool>(asked.size())};
  for (size_t i = 0; i < asked.size(); ++i) {
    if (asked[i].property->asks_target)
      leave(batch, i, "a property that asks the kernel itself");
    else
      batch.open.push_back({i, asked[i].c});
  }
  while (!batch.open.empty()) round(batch);
  if (batch.innocent.empty()) return std::move(batch.verdicts);
  for (size_t i = 0; i < asked.size(); ++i)
    if (!batch.judged[i]) ordinary(batch, i);
  if (std::ranges::any_of(batch.verdicts, [](const Verdict& v) { return v.outcome == Outcome::kFail; }))
    return std::move(batch.verdicts);
  for (const size_t i : batch.innocent) {
    Verdict& v = batch.verdicts[i];
    v.outcome = Outcome::kPass;
    fail(v, Kind::kOracle,
         "on the device something is wrong, and the CPU's oracle finds nothing, in this or another case of its "
         "batch: the kernel does not repeat itself, or the oracles do not agree. Judge without --batch");
    v.failing = asked[i].c;
  }
  return std::move(batch.verdicts);
}

}  // namespace attnfuzz
