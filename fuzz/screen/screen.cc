#include "fuzz/screen/screen.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "fuzz/screen/prepare.h"
#include "properties/judge/judge.h"
#include "properties/judge/stopwatch.h"
#include "properties/judge/trial.h"
#include "reference/agreement.h"

namespace attnfuzz {
namespace {

struct Prepared {
  size_t index;  // of the case
  std::vector<std::string> assumptions;
};

// Of a run in which nothing is wrong, as Trial::run() and judge() would say it.
Verdict passed(const screen::Call& call, const screen::Result& result, std::vector<std::string> assumptions) {
  Verdict v;
  v.property = "reference";
  v.plan = call.plan;
  v.worst = std::bit_cast<double>(result.counts.worst);
  v.ratios = {static_cast<float>(v.worst)};
  v.rows = v.sampled = call.problem.batch * call.problem.heads_q * call.problem.seq_q;
  v.dead_rows = result.counts.dead;
  v.uninformative_rows = result.counts.uninformative;
  v.unconstrained_rows = result.counts.unconstrained;
  v.assumptions = std::move(assumptions);
  return v;
}

// By the ordinary way and the CPU's oracle alone.
Verdict by_cpu(const Case& c, Target& target, const Calibration& calibration) {
  const auto fast = std::exchange(target.oracles, nullptr);
  Verdict v = judge(c, *find_property("reference"), target, calibration);
  target.oracles = fast;
  return v;
}

// A verdict of the screen's held to the ordinary one, which counts.
Verdict held(const Verdict& screened, Verdict v, const Case& c) {
  const bool counted = v.dead_rows == screened.dead_rows &&
                       v.uninformative_rows == screened.uninformative_rows &&
                       v.unconstrained_rows == screened.unconstrained_rows;
  // An error and its bound may each lie kApart of the bound away; a kernel that does not repeat itself,
  // further.
  const double apart = v.plan.deterministic ? 4 * kApart : 1;
  if (v.outcome == Outcome::kPass && counted && std::fabs(v.worst - screened.worst) <= apart) return v;
  if (v.outcome == Outcome::kFail && v.kind != Kind::kWrong && v.kind != Kind::kNonFinite) return v;
  const std::string said = v.outcome == Outcome::kPass ? "a pass, worst error/bound " + digits(v.worst)
                                                       : std::string(to_string(v.kind)) + ": " + v.message;
  v.outcome = Outcome::kPass;
  fail(v, Kind::kOracle,
       "on the device nothing is wrong (worst error/bound " + digits(screened.worst) +
           "), the CPU's oracle says " + said +
           ": the kernel does not repeat itself, or the oracles do not agree. Judge without --batch");
  v.failing = c;
  return v;
}

// Whether the screen found nothing wrong.
bool clean(const screen::Result& result) {
  const screen::Counts& n = result.counts;
  return result.status == ATTN_OK && !result.reported && n.outside + n.guards + n.inputs + n.unwritten == 0 &&
         n.unknown == 0;
}

}  // namespace

void ScreenUse::merge(const ScreenUse& other) {
  screened += other.screened;
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

void ScreenUse::take(const ScreenUse& before) {
  screened -= before.screened;
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

std::string words(const ScreenUse& use) {
  std::string text = "judged on the device beside the kernel: " + std::to_string(use.screened) + " cases, " +
                     std::to_string(use.both) + " of them by the CPU's oracle too";
  if (use.doubted > 0) text += "; doubted: " + std::to_string(use.doubted);
  if (use.lost > 0) text += "; batches lost to a fault: " + std::to_string(use.lost);
  for (const auto& [reason, n] : use.left) text += "; left, " + reason + ": " + std::to_string(n);
  return text;
}

// The threads, and what they have to do.
struct Screen::Beside {
  struct Held {
    uint64_t number;
    Case c;
    Verdict screened;
  };
  // So much is waiting at most: who judges faster than they do waits.
  static constexpr size_t kMostWaiting = 64;

  Beside(const Open& open, int count, const Calibration& calibration_of) : calibration(calibration_of) {
    for (int n = 0; n < count; ++n) targets.push_back(open());
    for (const auto& target : targets) threads.emplace_back([this, &target] { work(*target); });
  }
  ~Beside() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
      waiting.clear();
    }
    changed.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  void work(Target& target) {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return ending || !waiting.empty(); });
      if (ending) return;
      const Held held_one = std::move(waiting.front());
      waiting.pop_front();
      ++busy;
      lock.unlock();
      changed.notify_all();
      std::optional<Late> found;
      std::exception_ptr thrown;
      try {
        Verdict v = held(held_one.screened, by_cpu(held_one.c, target, calibration), held_one.c);
        if (v.outcome != Outcome::kPass) found = {held_one.number, std::move(v)};
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      --busy;
      if (found) late.push_back(std::move(*found));
      if (thrown && !failed) failed = thrown;
      changed.notify_all();
    }
  }

  void add(Held one) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return waiting.size() < kMostWaiting || failed; });
    waiting.push_back(std::move(one));
    changed.notify_all();
  }

  std::vector<Late> take(bool all) {
    std::unique_lock lock(mutex);
    if (all) changed.wait(lock, [&] { return (waiting.empty() && busy == 0) || failed; });
    if (failed) std::rethrow_exception(failed);
    return std::exchange(late, {});
  }

  const Calibration& calibration;
  std::vector<std::unique_ptr<Target>> targets;
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Held> waiting;
  std::vector<Late> late;
  std::exception_ptr failed;
  int busy = 0;
  bool ending = false;
};

Screen::Screen(Screening& screening, Target& target, const Calibration& calibration, uint64_t seed)
    : screening_(screening), target_(target), calibration_(calibration), random_(seed) {}

Screen::Screen(Screening& screening, Target& target, const Calibration& calibration, uint64_t seed,
               const Open& open, int threads)
    : Screen(screening, target, calibration, seed) {
  if (threads > 0) beside_ = std::make_unique<Beside>(open, threads, calibration_);
}

Screen::~Screen() = default;

std::vector<Late> Screen::late(bool all) {
  if (!beside_) return {};
  Stopwatch watch(use_.again_s);
  return beside_->take(all);
}

bool Screen::drawn() {
  // SplitMix64.
  uint64_t z = random_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return use_.screened == 0 || (z ^ (z >> 31)) % 100 == 0;
}

Verdict Screen::ordinary(const Case& c, bool by_cpu_alone) {
  Stopwatch watch(use_.again_s);
  return by_cpu_alone ? by_cpu(c, target_, calibration_)
                      : attnfuzz::judge(c, *find_property("reference"), target_, calibration_);
}

std::vector<Verdict> Screen::judge(std::span<const Case> cases) {
  std::vector<Verdict> verdicts(cases.size());
  std::vector<bool> judged(cases.size());
  const uint64_t first = std::exchange(cases_, cases_ + cases.size());
  std::vector<screen::Call> calls;
  std::vector<Prepared> of;
  const auto by_ordinary = [&](size_t i, bool by_cpu_alone = true) {
    verdicts[i] = ordinary(cases[i], by_cpu_alone);
    judged[i] = true;
  };
  const auto leave = [&](size_t i, const std::string& why) {
    ++use_.left[why];
    by_ordinary(i, false);
  };
  std::vector<std::pair<size_t, std::string>> left;
  {
    Stopwatch watch(use_.prepare_s);
    for (size_t i = 0; i < cases.size(); ++i) {
      std::string why;
      if (auto call = screen::prepare(cases[i], target_.info().backend, &why)) {
        calls.push_back(*call);
        of.push_back({i, {}});
      } else {
        left.emplace_back(i, why);
      }
    }
  }
  for (const auto& [i, why] : left) leave(i, why);
  std::vector<screen::Result> results(calls.size());
  std::string lost;
  if (!calls.empty()) {
    Stopwatch watch(use_.plan_s);
    lost = screening_.plan(calls, results);
  }
  left.clear();
  if (lost.empty()) {
    Stopwatch watch(use_.prepare_s);
    size_t kept = 0;
    for (size_t n = 0; n < calls.size(); ++n) {
      std::string why = "a plan that is a refusal";
      const bool planned = results[n].status == ATTN_OK && !results[n].reported;
      if (planned && screen::add_plan(cases[of[n].index], results[n].plan, calibration_, &calls[n],
                                      &of[n].assumptions, &why)) {
        calls[kept] = calls[n];
        of[kept++] = of[n];
      } else {
        left.emplace_back(of[n].index, why);
      }
    }
    calls.resize(kept);
    of.resize(kept);
    results.resize(kept);
  }
  for (const auto& [i, why] : left) leave(i, why);
  if (lost.empty() && !calls.empty()) {
    Stopwatch watch(use_.run_s);
    lost = screening_.run(calls, results);
    if (lost.empty())
      for (const screen::Result& result : results) use_.launch_s += result.launch_s;
  }
  if (!lost.empty()) {
    // Whose fault it was, each shows by itself.
    ++use_.lost;
    bool failed = false;
    for (const Prepared& one : of) {
      by_ordinary(one.index);
      failed |= verdicts[one.index].outcome == Outcome::kFail;
    }
    if (failed || of.empty()) return verdicts;
    Verdict& first = verdicts[of[0].index];
    first.outcome = Outcome::kPass;
    fail(first, Kind::kCrash,
         "a batch of " + std::to_string(of.size()) + " cases, of which this is the first, ended with: " + lost +
             "; one after the other none of them does");
    first.failing = cases[of[0].index];
    return verdicts;
  }

  std::vector<size_t> innocent;  // doubted here, and right by themselves
  for (size_t n = 0; n < calls.size(); ++n) {
    const size_t i = of[n].index;
    const Verdict screened = passed(calls[n], results[n], std::move(of[n].assumptions));
    if (!clean(results[n])) {
      ++use_.doubted;
      by_ordinary(i);
      if (verdicts[i].outcome != Outcome::kFail) innocent.push_back(i);
    } else if (2 * (screened.uninformative_rows + screened.unconstrained_rows) > screened.sampled) {
      leave(i, "rows that mostly cannot be judged");
    } else {
      const bool also = drawn();
      ++use_.screened;
      use_.both += also;
      verdicts[i] = screened;
      if (!also) continue;
      if (beside_) {
        Stopwatch watch(use_.again_s);
        beside_->add({first + i, cases[i], screened});
      } else {
        verdicts[i] = held(screened, ordinary(cases[i], true), cases[i]);
        judged[i] = true;
      }
    }
  }
  if (innocent.empty()) return verdicts;
  for (const Prepared& one : of)
    if (!judged[one.index]) by_ordinary(one.index);
  if (std::ranges::any_of(verdicts, [](const Verdict& v) { return v.outcome == Outcome::kFail; }))
    return verdicts;
  for (const size_t i : innocent) {
    verdicts[i].outcome = Outcome::kPass;
    fail(verdicts[i], Kind::kOracle,
         "on the device something is wrong, and the CPU's oracle finds nothing, in this or another case of its "
         "batch: the kernel does not repeat itself, or the oracles do not agree. Judge without --batch");
    verdicts[i].failing = cases[i];
  }
  return verdicts;
}

}  // namespace attnfuzz
