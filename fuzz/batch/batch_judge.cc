#include "fuzz/batch/batch_judge.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "fuzz/batch/background.h"
#include "fuzz/batch/device/device.h"
#include "fuzz/batch/given.h"
#include "fuzz/batch/prepare.h"
#include "fuzz/batch/device/readback.h"
#include "properties/judge/judge.h"
#include "properties/judge/stopwatch.h"
#include "properties/judge/trial.h"

namespace attnfuzz {
namespace {

// Describes what the device found wrong with a call; empty if nothing is wrong.
std::string found_wrong(const batch::Result& result) {
  // Nobody has judged a call that did not run.
  if (result.status != ATTN_OK) return "run() answered status " + std::to_string(result.status);
  const batch::Counts& n = result.counts;
  std::string text;
  const auto say = [&](uint64_t count, const char* what) {
    if (count > 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  say(result.reported != 0, "report of the kernel");
  say(n.outside, "elements outside of their bound");
  say(n.redzones, "units of redzones and gaps written");
  say(n.inputs, "units of inputs written");
  say(n.unwritten, "elements not written");
  say(n.repeated, "elements with other bits in a later call");
  say(n.unknown, "rows that the device's oracle did not evaluate");
  return text;
}
bool clean(const batch::Result& result) { return found_wrong(result).empty(); }

// True if both calls place their tensors and their workspace at the same offsets of a slot.
bool same_places(const batch::Call& a, const batch::Call& b) {
  const auto same = [](const batch::TensorSlot& x, const batch::TensorSlot& y) {
    return x.begin == y.begin && x.data == y.data && x.end == y.end;
  };
  return std::ranges::equal(a.tensor, b.tensor, same) && a.workspace.begin == b.workspace.begin &&
         (a.workspace.data == b.workspace.data || a.plan.workspace_bytes != b.plan.workspace_bytes);
}

}  // namespace

void BatchUse::merge(const BatchUse& other) { add(other, 1); }
void BatchUse::take(const BatchUse& before) { add(before, -1); }

void BatchUse::add(const BatchUse& other, int sign) {
  constexpr uint64_t BatchUse::* kCounts[] = {&BatchUse::cleared, &BatchUse::both, &BatchUse::doubted,
                                              &BatchUse::lost};
  constexpr double BatchUse::* kSeconds[] = {
      &BatchUse::prepare_s, &BatchUse::plan_s,   &BatchUse::run_s,    &BatchUse::again_s, &BatchUse::map_s,
      &BatchUse::send_s,    &BatchUse::launch_s, &BatchUse::flight_s, &BatchUse::wait_s,  &BatchUse::own_wait_s};
  const auto signed_one = static_cast<uint64_t>(static_cast<int64_t>(sign));  // counts wrap: -1 subtracts
  for (const auto count : kCounts) this->*count += signed_one * (other.*count);
  for (const auto& [reason, n] : other.left) left[reason] += signed_one * n;
  for (const auto seconds : kSeconds) this->*seconds += sign * (other.*seconds);
  for (const auto& [reason, s] : other.again_by) again_by[reason] += sign * s;
}

std::string words(const BatchUse& use) {
  std::string text = "judged on the device beside the kernel: " + std::to_string(use.cleared) + " cases, " +
                     std::to_string(use.both) + " of them by the CPU's oracle too";
  if (use.doubted > 0) text += "; doubted: " + std::to_string(use.doubted);
  if (use.lost > 0) text += "; batches lost to a fault: " + std::to_string(use.lost);
  for (const auto& [reason, n] : use.left) text += "; left, " + reason + ": " + std::to_string(n);
  const double all = use.prepare_s + use.plan_s + use.run_s + use.again_s + use.wait_s + use.own_wait_s;
  const auto share = [&](double s) {
    return std::to_string(std::lround(100 * s / std::max(all, 1e-9))) + " %";
  };
  text += "; of the time: made ready " + share(use.prepare_s) + ", planned " + share(use.plan_s) +
          ", on the device " + share(use.run_s) + " (mapping memory " + share(use.map_s) + ", copying calls " +
          share(use.send_s) + ", launching " + share(use.launch_s) + ", waiting for the batch to end " +
          share(use.flight_s) + "), waiting for the shared worker " + share(use.wait_s) + " and for a worker of one's own " +
          share(use.own_wait_s) + ", the ordinary way " + share(use.again_s);
  std::string by;
  for (const auto& [reason, s] : use.again_by)
    if (s >= all / 100) by += (by.empty() ? " (" : ", ") + reason + " " + share(s);
  return text + (by.empty() ? "" : by + ")");
}

// A case that is being judged. `next` is the run that it needs next.
struct BatchJudge::Item {
  size_t index;
  Case next;
  bool in_place = false;  // repeat the last of `runs`, then run `next` in the same memory
  std::vector<std::unique_ptr<GivenRun>> runs = {};
  std::vector<Assumption> assumptions = {};  // of the `next` run
  size_t calls() const { return in_place ? 2 : 1; }
};

// One batch: the calls of all items, in order. The device plans and runs them together.
struct BatchJudge::Round {
  std::vector<Item> items = {};
  std::vector<batch::Call> calls = {};
  std::vector<batch::Result> results = {};
  std::string lost = {};                                     // why the batch ended early; empty if it did not
  std::vector<std::pair<size_t, std::string>> left = {};     // cases that the batch cannot do, with the reason
  std::vector<size_t> refused = {};                          // cases
  std::vector<std::pair<size_t, std::string>> doubted = {};  // cases, with what the device found
};

// The result of running a lost batch again.
struct BatchJudge::Again {
  std::string words = {};
  std::optional<size_t> guilty = {};  // an item that also ends badly in a batch of its own
};

struct BatchJudge::Batch {
  std::span<const BatchCase> asked;
  uint64_t first;  // number of the first case
  std::vector<Verdict> verdicts;
  std::vector<bool> judged;     // cases that were judged the ordinary way
  std::vector<Item> open = {};  // items that still need a run
  // Cases with an error in this batch that do not fail the ordinary way, and what the device found.
  std::vector<std::pair<size_t, std::string>> innocent = {};
};

BatchJudge::BatchJudge(BatchTarget& batch_target, Target& target, const Calibration& calibration, uint64_t seed,
                       OwnWorkers* own)
    : batch_target_(batch_target), target_(target), calibration_(calibration), random_{seed}, own_(own) {}

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

uint64_t one_judged_twice_of(const Problem& p) {
  constexpr double kLarge = 0x1p25;  // multiply-adds
  return batch::multiply_adds(p) > kLarge ? 1000 : 100;
}

Turn BatchJudge::turn() {
  Stopwatch watch(use_.wait_s);
  return target_.turn();
}

OwnWorkers::Lent BatchJudge::lend() {
  Stopwatch watch(use_.own_wait_s);
  return own_->lend();
}

bool BatchJudge::drawn(const Case& c) {
  const uint64_t bits = random_();
  return use_.cleared == 0 || bits % one_judged_twice_of(c.problem) == 0;
}

// `by_cpu_alone`: use only the CPU's oracle, even if the target has a fast one.
// `why`: the reason that its seconds are counted under.
void BatchJudge::ordinary(Batch& batch, size_t index, const std::string& why, bool by_cpu_alone) {
  const auto& [c, property] = batch.asked[index];
  Verdict& v = batch.verdicts[index];
  const auto judged = [&](Target& target) {
    return by_cpu_alone ? judged_by_cpu(c, *property, target, calibration_)
                        : attnfuzz::judge(c, *property, target, calibration_);
  };
  v = judged_on_own(own_, target_, judged, &use_.own_wait_s);
  const double s =
      v.lay_out_s + v.kernel_s + v.oracle_s + v.judge_s;  // without the time spent waiting for a turn
  use_.again_s += s;
  use_.again_by[why] += s;
  batch.judged[index] = true;
}

void BatchJudge::leave(Batch& batch, size_t index, const std::string& why) {
  ++use_.left[why];
  ordinary(batch, index, why, false);
}

void BatchJudge::prepare(Batch& batch, Round& round) {
  Stopwatch watch(use_.prepare_s);
  for (Item& item : std::exchange(batch.open, {})) {
    if (round.calls.size() + item.calls() > batch::kMostCalls) {
      batch.open.push_back(std::move(item));  // in the next round
      continue;
    }
    std::string why;
    std::vector<batch::Call> calls;
    if (item.in_place) {
      if (auto call = batch::prepare(item.runs.back()->run.c, target_.info().backend, &why))
        calls.push_back(*call);
    }
    if (auto call = batch::prepare(item.next, target_.info().backend, &why)) {
      call->in_place = item.in_place;
      calls.push_back(*call);
    }
    const bool known = std::ranges::all_of(calls, [&](const batch::Call& call) {
      return (call.problem.features & ~target_.info().features) == 0;
    });
    if (calls.size() == item.calls() && known) {
      std::ranges::copy(calls, std::back_inserter(round.calls));
      round.items.push_back(std::move(item));
    } else {
      round.left.emplace_back(item.index, known ? why : "a kind of problem that the kernel knows nothing of");
    }
  }
}

std::string BatchJudge::add_plans(Item& item, std::span<batch::Call> calls,
                                  std::span<const batch::Result> planned) const {
  std::string why = "a plan that is a refusal";
  for (size_t n = 0; n < calls.size(); ++n) {
    const Case& c = n + 1 == calls.size() ? item.next : item.runs.back()->run.c;
    if (planned[n].status != ATTN_OK || planned[n].reported ||
        !batch::add_plan(c, planned[n].plan, calibration_, &calls[n], &item.assumptions, &why))
      return why;
  }
  if (!item.in_place) return "";
  if (!same_places(calls[0], calls[1])) return "a second case that lies elsewhere";
  calls[1].keeps_workspace = calls[0].plan.workspace_bytes == calls[1].plan.workspace_bytes;
  return "";
}

void BatchJudge::plan(Batch& batch, Round& round) {
  std::vector<batch::Result> planned(round.calls.size());
  {
    Stopwatch watch(use_.plan_s);
    round.lost = batch_target_.plan(round.calls, planned);
  }
  if (!round.lost.empty()) return;
  Stopwatch watch(use_.prepare_s);
  const Property* reference = find_property("reference");
  std::vector<batch::Call> ready;
  std::vector<Item> items;
  uint64_t readback = 0;
  size_t first = 0;  // call of the item
  for (Item& item : round.items) {
    const std::span calls = std::span(round.calls).subspan(first, item.calls());
    const std::string why = add_plans(item, calls, std::span(planned).subspan(first, item.calls()));
    first += item.calls();
    const bool tells = batch.asked[item.index].property != reference;
    const uint64_t more = why.empty() && tells ? batch::Readback(calls.back()).sent() : 0;
    if (!why.empty() || more > batch::kReadbackBytes) {
      round.left.emplace_back(item.index, why.empty() ? "results of more than 32 MiB" : why);
    } else if (readback + more > batch::kReadbackBytes) {
      batch.open.push_back(std::move(item));  // in the next round
    } else {
      if (tells) calls.back().readback_at = std::exchange(readback, readback + more);
      std::ranges::copy(calls, std::back_inserter(ready));
      items.push_back(std::move(item));
    }
  }
  round.calls = std::move(ready);
  round.items = std::move(items);
}

void BatchJudge::run(Round& round) {
  if (!round.lost.empty() || round.calls.empty()) return;
  round.results.resize(round.calls.size());
  Stopwatch watch(use_.run_s);
  round.lost = batch_target_.run(round.calls, round.results);
  if (!round.lost.empty()) return;
  for (const batch::Result& result : round.results) {
    use_.map_s += result.map_s, use_.send_s += result.send_s;
    use_.launch_s += result.launch_s, use_.flight_s += result.flight_s;
  }
}

void BatchJudge::take(Round& round) {
  if (!round.lost.empty() || round.calls.empty()) return;
  Stopwatch watch(use_.prepare_s);
  const std::span<const std::byte> readback = batch_target_.readback();
  std::vector<Item> sound;
  size_t first = 0;  // call of the item
  for (Item& item : round.items) {
    const auto results = std::span(round.results).subspan(first, item.calls());
    first += item.calls();
    const batch::Call& call = round.calls[first - 1];
    if (std::ranges::any_of(results, [](const batch::Result& r) { return r.status == ATTN_UNSUPPORTED; })) {
      round.refused.push_back(item.index);
      continue;
    }
    if (const auto wrong = std::ranges::find_if_not(results, clean); wrong != results.end()) {
      round.doubted.emplace_back(item.index, found_wrong(*wrong));
      continue;
    }
    auto run = batch::given_run(item.next, call, results.back(), std::move(item.assumptions), readback);
    if (run)
      item.runs.push_back(std::move(run)), sound.push_back(std::move(item));
    else
      round.doubted.emplace_back(item.index, "results that no oracle writes");
  }
  round.items = std::move(sound);
}

void BatchJudge::lost(Batch& batch, Round& round) {
  // Judging each case by itself shows which case is at fault.
  ++use_.lost;
  const std::vector<Item>& items = round.items;
  bool failed = false;
  size_t passed = 0;
  for (const Item& item : items) {
    ordinary(batch, item.index, BatchUse::kLost);
    failed |= batch.verdicts[item.index].outcome == Outcome::kFail;
    passed += batch.verdicts[item.index].outcome == Outcome::kPass;
  }
  if (failed || items.empty()) return;
  const Again again = run_again(round);
  const size_t index = items[again.guilty.value_or(0)].index;
  Verdict& v = batch.verdicts[index];
  v.outcome = Outcome::kPass;
  fail(v, Kind::kCrash,
       "a batch of " + std::to_string(items.size()) + " cases ended with: " + round.lost + "; this case is " +
           (again.guilty ? "one that ends so in a batch of its own" : "the first of them") +
           "; judged one at a time, none of them fails, and " + std::to_string(passed) + " pass" + again.words);
  v.failing = batch.asked[index].c;
}

// Runs the lost batch again and counts how often the fault repeats. If it does, runs each case in a batch of
// its own, until one of them ends badly.
BatchJudge::Again BatchJudge::run_again(Round& round) {
  constexpr int kTimes = 3;
  if (round.results.empty()) return {};  // it ended in plan()
  const Turn mine = turn();
  Stopwatch watch(use_.run_s);
  std::string last;
  int ended = 0;
  for (int n = 0; n < kTimes; ++n) {
    std::string why = batch_target_.run(round.calls, round.results);
    if (!why.empty() && !batch::is_no_memory(why)) ++ended, last = std::move(why);
  }
  const std::string times = std::to_string(ended) + " of " + std::to_string(kTimes);
  Again again = {"; run again as a batch it ended badly " + times + " times" +
                     (last.empty() ? "" : ", the last with: " + last),
                 {}};
  size_t first = 0;  // call of the item
  for (size_t n = 0; n < round.items.size() && ended > 0 && !again.guilty; ++n) {
    const size_t calls = round.items[n].calls();
    const std::span some = std::span(round.calls).subspan(first, calls);
    const std::string why = batch_target_.run(some, std::span(round.results).subspan(first, calls));
    if (!why.empty() && !batch::is_no_memory(why)) again.guilty = n;
    first += calls;
  }
  return again;
}

void BatchJudge::tried(Batch& batch, Item item) {
  const auto& [c, property] = batch.asked[item.index];
  GivenRuns given = {item.runs, {}};
  Trial trial(c, target_, calibration_, given);
  trial.verdict().property = property->name;
  property->check(trial);
  if (given.lacking) {
    item.next = std::move(*given.lacking);
    item.in_place = given.in_place;
    batch.open.push_back(std::move(item));
    return;
  }
  Verdict& v = batch.verdicts[item.index];
  v = std::move(trial.verdict());
  if (v.outcome == Outcome::kFail) {
    doubt(batch, item.index, v.message);
  } else if (v.outcome != Outcome::kPass) {
    leave(batch, item.index, illegal(c) ? "a case that cannot be run" : "a relation that says nothing");
  } else {
    weigh_rows(v);
    const bool also = drawn(c);
    ++use_.cleared;
    use_.both += also;
    if (!also) return;
    if (background_) {
      Stopwatch watch(use_.again_s);
      background_->add({batch.first + item.index, batch.asked[item.index], v});
    } else {
      const Verdict by_batch = v;
      ordinary(batch, item.index, BatchUse::kTwice);
      v = confirmed(by_batch, std::move(v), c);
    }
  }
}

void BatchJudge::round(Batch& batch) {
  Round round;
  prepare(batch, round);
  {
    // These steps need the worker, or the readback, which the next batch overwrites.
    const Turn mine = turn();
    if (!round.calls.empty()) plan(batch, round);
    run(round);
    take(round);
  }
  for (const auto& [index, why] : round.left) leave(batch, index, why);
  if (batch::is_no_memory(round.lost)) {
    // The kernel is not at fault, and there may be enough memory for one case at a time.
    for (const Item& item : round.items) leave(batch, item.index, "too little free memory on the device");
    return;
  }
  if (!round.lost.empty()) return lost(batch, round);
  // A hosted kernel may refuse when it runs (hosted.h). Any other kernel should have refused in plan(); the
  // ordinary way reports that.
  for (const size_t index : round.refused) leave(batch, index, "a refusal as it ran");
  for (const auto& [index, found] : round.doubted) doubt(batch, index, found);
  for (Item& item : round.items) tried(batch, std::move(item));
}

// `found` says what is wrong with the case in its batch. It is a copy, because it may come from the case's
// verdict, which is overwritten here.
void BatchJudge::doubt(Batch& batch, size_t index, std::string found) {
  ++use_.doubted;
  ordinary(batch, index, BatchUse::kDoubted);
  if (batch.verdicts[index].outcome != Outcome::kFail) batch.innocent.emplace_back(index, std::move(found));
}

void BatchJudge::ask(Batch& batch) {
  std::vector<size_t> ended;
  const auto ask_all = [&](Target& target) {
    Stopwatch watch(use_.plan_s);
    std::erase_if(batch.open, [&](const Item& item) {
      const auto& [c, property] = batch.asked[item.index];
      if (!property->ask) return false;
      Trial trial(c, target, calibration_);
      property->ask(trial);
      if (trial.done()) ended.push_back(item.index);
      return trial.done();
    });
  };
  // These are hundreds of questions, which would hold up the batches of other threads.
  if (own_) {
    ask_all(*lend());
  } else {
    const Turn mine = turn();
    ask_all(target_);
  }
  for (const size_t index : ended)
    leave(batch, index, illegal(batch.asked[index].c) ? "a case that cannot be run" : "plans that do not hold");
}

std::vector<Verdict> BatchJudge::judge(std::span<const BatchCase> asked) {
  Batch batch = {asked, std::exchange(cases_, cases_ + asked.size()), std::vector<Verdict>(asked.size()),
                 std::vector<bool>(asked.size())};
  for (size_t i = 0; i < asked.size(); ++i) {
    if (asked[i].property->asks_target)
      leave(batch, i, "a property that asks the kernel itself");
    else
      tried(batch, {i, asked[i].c});  // chooses its first run, which may be that of a variant
  }
  if (std::ranges::any_of(asked, [](const BatchCase& one) { return one.property->ask != nullptr; })) ask(batch);
  while (!batch.open.empty()) round(batch);
  if (batch.innocent.empty()) return std::move(batch.verdicts);
  for (size_t i = 0; i < asked.size(); ++i)
    if (!batch.judged[i]) ordinary(batch, i, BatchUse::kDoubted);
  if (std::ranges::any_of(batch.verdicts, [](const Verdict& v) { return v.outcome == Outcome::kFail; }))
    return std::move(batch.verdicts);
  for (const auto& [i, found] : batch.innocent) {
    Verdict& v = batch.verdicts[i];
    v.outcome = Outcome::kPass;
    fail(v, Kind::kOracle,
         "on the device something is wrong (" + found +
             "), and the CPU's oracle finds nothing, in this or another case of its "
             "batch: the kernel does not repeat itself, or the oracles do not agree. Judge without --batch");
    v.failing = asked[i].c;
  }
  return std::move(batch.verdicts);
}

}  // namespace attnfuzz
