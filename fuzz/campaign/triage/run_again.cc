#include "fuzz/campaign/triage/run_again.h"

#include "base/files.h"
#include "fuzz/campaign/store/journal.h"
#include "properties/judge/trial.h"

namespace attnfuzz {
namespace {

constexpr int kRuns = 3, kMoreRuns = 10;

class Again {
 public:
  Again(const Crash& crash, const Property& property, Target& worker, const Calibration& calibration)
      : crash_(crash), property_(property), worker_(worker), calibration_(calibration) {}

  Repetition run(const std::string& trace_file) {
    fresh(kRuns);
    if (result_.failed == kRuns) {
      result_.repeats = Repeats::kAlways;
    } else if (result_.failed == 0 && after_others(trace_file)) {
      result_.repeats = Repeats::kAfterOthers;
    } else {
      fresh(kMoreRuns);
      result_.repeats = result_.failed > 0 ? Repeats::kSometimes : Repeats::kNever;
    }
    return result_;
  }

 private:
  bool fails() {
    Verdict verdict = judge(crash_.c, property_, worker_, calibration_);
    if (verdict.outcome != Outcome::kFail) return false;
    // The crash was not a kill, and anyone may have killed this run, so it proves nothing about the failure.
    if (verdict.exit_reason == ExitReason::kKilled && crash_.exit_reason != ExitReason::kKilled) return false;
    result_.verdict = std::move(verdict);
    return true;
  }

  void fresh(int runs) {
    for (; result_.runs < runs; ++result_.runs) {
      worker_.renew();
      result_.failed += fails();
    }
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
  bool after_others(const std::string& file) {
    const auto text = read_file(file);
    if (!std::holds_alternative<std::string>(text)) return false;
    std::vector<Journaled> trace = parse_trace(std::get<std::string>(text));
    if (trace.size() < 2 || !fails_after(trace, 0)) return false;
    // Anyone may kill a process once, so a kill counts only if it happens again.
    if (crash_.exit_reason == ExitReason::kKilled && !fails_after(trace, 0)) return false;
    size_t first = 0;
    while (trace.size() - first > 2) {
      const size_t half = first + (trace.size() - first) / 2;
      if (!fails_after(trace, half)) break;
      first = half;
    }
    trace.erase(trace.begin(), trace.begin() + static_cast<std::ptrdiff_t>(first));
    result_.trace = text_of(trace);
    return true;
  }

  const Crash& crash_;
  const Property& property_;
  Target& worker_;
  const Calibration& calibration_;
  Repetition result_;
};

}  // namespace

Repetition run_again(const Crash& crash, const Property& property, Target& worker,
                     const Calibration& calibration, const std::string& trace_file) {
  return Again(crash, property, worker, calibration).run(trace_file);
}

}  // namespace attnfuzz
