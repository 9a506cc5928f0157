#include "fuzz/campaign/triage/run_again.h"

#include "base/files.h"
#include "fuzz/campaign/store/jobs/journal.h"
#include "properties/judge/trial.h"

namespace attnfuzz {
namespace {

// The cases that preceded the crash, oldest first; none if the file cannot be read.
std::vector<Journaled> read_trace(const std::string& file) {
  const auto text = read_file(file);
  if (!std::holds_alternative<std::string>(text)) return {};
  return parse_trace(std::get<std::string>(text));
}

class Again {
 public:
  Again(const Crash& crash, const Property& property, Target& worker, const Calibration& calibration)
      : crash_(crash), property_(property), worker_(worker), calibration_(calibration) {}

  Repetition run(const std::string& trace_file) {
    const std::vector<Journaled> trace = read_trace(trace_file);
    const auto alone = [&] {
      worker_.renew();
      return fails();
    };
    const auto after = [&] { return trace.size() >= 2 && fails_after(trace, 0); };
    static_cast<RunCount&>(result_) = count_runs(crash_, alone, after);
    if (result_.repeats == Repeats::kAfterOthers) result_.trace = text_of(end_of(trace));
    return result_;
  }

 private:
  bool fails() {
    Verdict verdict = judge(crash_.c, property_, worker_, calibration_);
    if (!shows_again(crash_, verdict)) return false;
    result_.verdict = std::move(verdict);
    return true;
  }

  bool fails_after(const std::vector<Journaled>& trace, size_t first) {
    worker_.renew();
    for (size_t i = first; i < trace.size(); ++i) {
      const Property* property = find_property(trace[i].property);
      if (trace[i].target == crash_.target && property != nullptr && !(trace[i].c == crash_.c))
        judge(trace[i].c, *property, worker_, calibration_);
    }
    return fails();
  }

  // Halves the trace, from its front, while the case still fails after the rest.
  std::vector<Journaled> end_of(const std::vector<Journaled>& trace) {
    size_t first = 0;
    while (trace.size() - first > 2) {
      const size_t half = first + (trace.size() - first) / 2;
      if (!fails_after(trace, half)) break;
      first = half;
    }
    return {trace.begin() + static_cast<std::ptrdiff_t>(first), trace.end()};
  }

  const Crash& crash_;
  const Property& property_;
  Target& worker_;
  const Calibration& calibration_;
  Repetition result_;
};

}  // namespace

RunCount count_runs(const Crash& crash, const std::function<bool()>& fails,
                    const std::function<bool()>& fails_after) {
  RunCount count;
  const auto fresh = [&](int runs) {
    for (; count.runs < runs; ++count.runs) count.failed += fails();
  };
  // Anyone may kill a process once, so a kill counts only if it happens again.
  const auto after_others = [&] {
    return fails_after() && (crash.exit_reason != ExitReason::kKilled || fails_after());
  };
  fresh(kFreshRuns);
  if (count.failed == kFreshRuns) {
    count.repeats = Repeats::kAlways;
  } else if (count.failed == 0 && after_others()) {
    count.repeats = Repeats::kAfterOthers;
  } else {
    fresh(kMoreFreshRuns);
    count.repeats = count.failed > 0 ? Repeats::kSometimes : Repeats::kNever;
  }
  return count;
}

bool shows_again(const Crash& crash, const Verdict& verdict) {
  return verdict.outcome == Outcome::kFail &&
         (verdict.exit_reason != ExitReason::kKilled || crash.exit_reason == ExitReason::kKilled);
}

Repetition run_again(const Crash& crash, const Property& property, Target& worker,
                     const Calibration& calibration, const std::string& trace_file) {
  return Again(crash, property, worker, calibration).run(trace_file);
}

}  // namespace attnfuzz
