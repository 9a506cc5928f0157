#include "fuzz/check/shard.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <latch>
#include <stdexcept>
#include <thread>

#include "fuzz/batch/shared_target.h"
#include "fuzz/check/epochs.h"
#include "properties/case/features/domain.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/data/fill_values.h"
#include "properties/draw/draw.h"
#include "properties/judge/oracles.h"
#include "reference/model/arithmetic_table.h"

namespace attnfuzz {
namespace {

Case without_refused(Case c, const GeneratorConfig& config) {
  strip_refused(config.refused, c);
  c.planted.clear();
  c.layout = {};
  c.once = {};
  c.nan_beyond_lengths = false;
  tidy(c);
  if (config.domain) lay_within(*config.domain, c);
  return c;
}

// Cases drawn ahead. If the target can judge batches, many are judged at once.
class Ahead {
 public:
  struct Taken {
    uint64_t index;
    Drawn drawn;
    StreamDigest digest;
    std::optional<Verdict> verdict;  // none: not judged yet
  };

  Ahead(const GeneratorConfig& config, const CheckOptions& options, Target& target,
        const Calibration& calibration, OwnWorkers* own)
      : config_(config), options_(options), target_(target), calibration_(calibration) {
    auto* batch_target = options.batch > 0 ? dynamic_cast<BatchTarget*>(&target) : nullptr;
    if (batch_target) batch_judge_.emplace(*batch_target, target, calibration, options.seed, own);
  }

  Taken take(uint64_t index) {
    if (taken_.empty()) draw_from(index);
    Taken next = std::move(taken_.front());
    taken_.pop_front();
    return next;
  }

  BatchUse use() const { return batch_judge_ ? batch_judge_->use() : BatchUse{}; }

 private:
  void draw_from(uint64_t index) {
    const size_t count = batch_judge_ ? options_.batch : 1;
    std::vector<BatchCase> asked;
    std::vector<size_t> of;
    while (taken_.size() < count && (taken_.empty() || index - options_.first < limit())) {
      Taken& next = taken_.emplace_back();
      next.index = index;
      next.drawn = case_at(config_, options_, target_, calibration_, index, &next.digest);
      index += static_cast<uint64_t>(options_.jobs);
      if (!batch_judge_) continue;
      const Property* property = next.drawn.property;
      Case c = next.drawn.c;
      if (rejected_by(*property, c, target_) || illegal(c)) continue;
      of.push_back(taken_.size() - 1);
      asked.push_back({std::move(c), property});
    }
    if (asked.empty()) return;
    std::vector<Verdict> verdicts = batch_judge_->judge(asked);
    for (size_t n = 0; n < of.size(); ++n) taken_[of[n]].verdict = std::move(verdicts[n]);
  }
  uint64_t limit() const { return options_.seconds > 0 ? ~uint64_t{0} : options_.cases; }

  const GeneratorConfig& config_;
  const CheckOptions& options_;
  Target& target_;
  const Calibration& calibration_;
  std::optional<BatchJudge> batch_judge_;
  std::deque<Taken> taken_;
};

// The kernel in the build asan, for a small share of the cases. It is opened for the first of them.
class AsanTarget {
 public:
  explicit AsanTarget(const CheckOptions& options)
      : every_(options.open_asan ? options.asan_every : 0), open_(options.open_asan) {}
  // The target that the case of this number is run on; null: the check's own.
  Target* of(uint64_t index) {
    if (every_ == 0 || (index * 0x9e3779b97f4a7c15u >> 32) % every_ != 0) return nullptr;
    if (!asked_) target_ = open_(), asked_ = true;
    return target_.get();
  }

 private:
  const uint32_t every_;
  const std::function<std::unique_ptr<Target>()>& open_;
  bool asked_ = false;
  std::unique_ptr<Target> target_;
};

}  // namespace

void enter_build(Case& c, const std::string& build_kind, uint64_t index) {
  c.build_kind = build_kind;
  if (build_kind != "schedules") return;
  constexpr uint64_t kRandomOrder = 2, kOrders = 3;
  const uint64_t bits = c.env.schedule_seed ^ index << 4;
  c.env.schedule_seed = (bits & 0xffff & ~kOrders) | kRandomOrder;
}

std::optional<Verdict> rejected_by(const Property& property, Case& c, const Target& target) {
  std::string why;
  if (adapted(c, property, target, &why)) return std::nullopt;
  Verdict verdict;
  verdict.outcome = Outcome::kRefused;
  verdict.property = property.name;
  verdict.message = why;
  return verdict;
}

namespace {

// Some cases on the executor use a GPU's arithmetic. Its bounds are narrower than those for an
// unknown arithmetic, so they find smaller errors.
int32_t arithmetic_at(uint64_t index, const CheckOptions& options, const Target& target,
                      const Calibration& calibration) {
  constexpr uint64_t kOneOf = 13;  // a prime, so that properties and jobs that take turns get their share
  const bool any = options.arithmetic == ATTN_ARITHMETIC_ANY && target.info().backend == ATTN_CPU;
  if (!any || mix(options.seed, index / kOneOf, 8, 0, 0) % kOneOf != index % kOneOf) return options.arithmetic;
  const Calibration& h200 = table_for(ATTN_ARITHMETIC_H200, calibration);
  return h200.arithmetic == ATTN_ARITHMETIC_H200 ? ATTN_ARITHMETIC_H200 : options.arithmetic;
}

}  // namespace

Drawn case_at(const GeneratorConfig& config, const CheckOptions& options, Target& target,
              const Calibration& calibration, uint64_t index, StreamDigest* digest) {
  const auto property_of = [&](uint64_t n) { return options.properties[n % options.properties.size()]; };
  const auto draw = [&]() -> Drawn {
    if (options.path.empty())
      return {draw_in_epoch(config, target.info(), options.seed, index), property_of(index)};
    // A path belongs to one operation. If a property's calls do not take it, the next property gets the turn.
    std::vector<const Property*> from_index;
    for (uint64_t n = 0; n < options.properties.size(); ++n) from_index.push_back(property_of(index + n));
    // A job's first case tells soon that there is no such path. Later ones must not end the check of a rare path.
    const uint64_t most = index - options.first < static_cast<uint64_t>(options.jobs) ? 1000 : 20000;
    const Turn turn = target.turn();
    std::string why;
    if (auto drawn = draw_on_path(config, options.seed, index, from_index, options.path, most, target, &why))
      return *drawn;
    throw std::runtime_error(why);
  };
  Drawn drawn = draw();
  if (digest != nullptr) digest->add(index, drawn.c);
  enter_build(drawn.c, target.info().build_kind, index);
  drawn.c.env.arithmetic = arithmetic_at(index, options, target, calibration);
  return drawn;
}

namespace {

// A case, and the property that judged it.
struct Judged {
  Case& c;
  const Property*& property;
  Verdict& verdict;
};

// True if nothing that the kernel may refuse is in the case.
bool must_be_taken(const Case& c, const GeneratorConfig& config) {
  Case without = c;
  strip_refused(config.refused, without);
  tidy(without);
  if (config.domain) lay_within(*config.domain, without);
  return without == c;
}

// Replaces a refused case. A relation may need features that the kernel refuses, so the case as it was drawn is
// judged by itself. If the kernel refuses that too, the case is judged without the features that may be
// refused, and most of what is unusual. Returns true if the kernel refused a case that it had to take, and
// another was judged in its place: a kernel must not hide its refusals behind this.
template <class JudgeAlone>
bool judge_otherwise(const GeneratorConfig& config, const Case& as_drawn, const JudgeAlone& judge_alone,
                     const Judged& judged) {
  const Property* by = find_property("reference");
  bool refused = false;
  for (const Case& other : {as_drawn, without_refused(as_drawn, config)}) {
    const bool same = judged.property == by && other == judged.c;
    Verdict verdict = same ? judged.verdict : judge_alone(other, *by);
    if (verdict.outcome == Outcome::kRefused) {
      refused = verdict.refused && must_be_taken(other, config);
      continue;
    }
    judged.verdict = std::move(verdict), judged.property = by, judged.c = other;
    return refused;
  }
  return refused && !judged.verdict.refused;  // a refusal by the kernel counts by itself
}

}  // namespace

CheckResult run_shard(int job, Target& target, const Calibration& calibration, const CheckOptions& options,
                      Shared& shared, OwnWorkers* own) {
  using Clock = std::chrono::steady_clock;
  CheckResult result;
  const GeneratorConfig config = [&] {
    const Turn turn = target.turn();
    return config_for(target, options);
  }();
  target.on_run = [&](const Case& c, const attn_plan& plan) { result.census.add(c, plan); };
  Ahead ahead(config, options, target, calibration, own);
  AsanTarget asan(options);
  // If only a property of bits is asked for (bit_exact, cpu_gpu_bits), a refused case stays refused: the reason is
  // reported, and no other property is judged in its place.
  const bool alone = options.properties.size() == 1 &&
                     std::ranges::find(properties(), options.properties[0]) == properties().end();
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  for (uint64_t index = options.first + job;; index += options.jobs) {
    if (options.seconds > 0 ? elapsed() >= options.seconds : index - options.first >= options.cases) break;
    if (shared.stop || index > shared.first_failure) break;
    shared.at[job] = index + 1;
    auto [taken, drawn, digest, judged] = ahead.take(index);
    auto& [c, property] = drawn;
    result.digest.merge(digest);
    const Case as_drawn = c;
    const std::optional<Verdict> rejected = rejected_by(*property, c, target);
    Target* const in_asan = rejected || judged ? nullptr : asan.of(index);
    if (in_asan != nullptr) {
      c.build_kind = in_asan->info().build_kind, ++result.build_kinds[c.build_kind];
      in_asan->on_run = target.on_run;
    }
    if (judged) result.census.add(c, judged->plan);  // a batch does not call on_run
    Verdict verdict = rejected ? *rejected
                      : judged ? *judged
                               : judge(c, *property, in_asan != nullptr ? *in_asan : target, calibration);
    if (verdict.outcome == Outcome::kRefused && !config.refused.nothing() && !alone) {
      const auto judge_alone = [&](const Case& other, const Property& by) {
        return judged_on_own(own, target, [&](Target& alone) { return judge(other, by, alone, calibration); });
      };
      result.refused += judge_otherwise(config, as_drawn, judge_alone, {c, property, verdict});
    }
    shared.at[job] = 0;
    result.add(c, verdict);
    add_met(result.coverage, c, verdict);
    result.assume(verdict.assumptions);
    if (verdict.declared) {
      result.declared += *verdict.declared;
      ++result.declared_of;
    }
    if (verdict.warning && verdict.outcome != Outcome::kFail) result.add(WarnedCase{index, *verdict.warning});
    ++shared.done;
    if (verdict.outcome != Outcome::kFail) continue;
    result.add({.index = index, .c = c, .verdict = verdict, .property = property});
    if (options.keep_going) continue;
    uint64_t first = shared.first_failure;
    while (index < first && !shared.first_failure.compare_exchange_weak(first, index)) {
    }
    break;
  }
  target.on_run = {};
  result.batch = ahead.use();
  result.seconds = elapsed();
  return result;
}

int process_count(const CheckOptions& options) {
  return options.batch > 0 ? std::min(options.workers, options.jobs) : options.jobs;
}

namespace {

CheckResult run_threads(const std::vector<int>& jobs, SharedTarget& shared_target, const Calibration& calibration,
                        const CheckOptions& options, Shared& shared, OwnWorkers* own) {
  std::vector<CheckResult> results(jobs.size());
  std::vector<std::exception_ptr> thrown(jobs.size());
  std::latch all_done(static_cast<std::ptrdiff_t>(jobs.size()));
  std::vector<std::thread> threads;
  for (size_t n = 0; n < jobs.size(); ++n)
    threads.emplace_back([&, n] {
      try {
        results[n] = run_shard(jobs[n], *shared_target.share(), calibration, options, shared, own);
      } catch (...) {
        thrown[n] = std::current_exception();
        shared.stop = true;
      }
      all_done.arrive_and_wait();  // this thread's end would end a worker that it started
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& one : thrown)
    if (one) std::rethrow_exception(one);
  CheckResult result = std::move(results[0]);
  for (size_t n = 1; n < results.size(); ++n) result.merge(results[n]);
  return result;
}

}  // namespace

CheckResult run_jobs(int process, const OpenTarget& open, const Calibration& calibration,
                     const CheckOptions& options, Shared& shared) {
  const auto open_one = [&open] {
    std::string error;
    std::unique_ptr<Target> target = open(&error);
    if (target == nullptr) throw std::runtime_error(error);
    return target;
  };
  std::unique_ptr<Target> target = open_one();
  const std::shared_ptr<Oracles> oracles = target->oracles;
  std::vector<int> jobs;
  for (int job = process; job < options.jobs; job += process_count(options)) jobs.push_back(job);
  CheckResult result;
  if (options.batch == 0) {
    result = run_shard(process, *target, calibration, options, shared);
  } else {
    SharedTarget shared_target(std::move(target));
    OwnWorkers own(open_one, options.own_workers);
    result = run_threads(jobs, shared_target, calibration, options, shared, options.own_workers > 0 ? &own : nullptr);
    result.oracle = own.oracle_use();
  }
  if (oracles) result.oracle.merge(oracles->use());
  return result;
}

}  // namespace attnfuzz
