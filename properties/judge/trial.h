// One judging of one case by one property.
//
//   Verdict v = judge(case, property, target, calibration);
//
// A property's check() sees a Trial. Trial::run() lays out a case, plans it,
// runs its calls, and holds every call to what must hold of any right kernel:
// status, guards, completeness, dead rows, finiteness, outputs against the
// oracle within the bound. Only then does the property compare runs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "properties/judge/execution.h"
#include "properties/judge/property.h"
#include "properties/judge/verdict.h"
#include "reference/model/calibration.h"
#include "reference/oracle.h"

namespace attnfuzz {

// A case that ran and was found right, call by call.
struct Run {
  Case c;
  attn_plan plan = {};
  Reference reference;
  bool by_fast = false;  // it is a fast oracle's (oracles.h)
  bool shared = false;   // or that of an earlier run, which had the same numbers
  std::vector<Outputs> calls;

  // Of the first call, as relations compare it.
  const std::vector<float>& operator[](TensorId t) const { return calls[0][t]; }
};

// Runs that were made and judged elsewhere, many cases at a time (fuzz/batch), and found right. A trial that
// is given them runs nothing: it takes them in the order in which its property asks.
struct GivenRun {
  Run run;
  double worst = 0;                                                     // error/bound
  int64_t sampled = 0, dead = 0, uninformative = 0, unconstrained = 0;  // rows
  std::vector<std::string> assumptions;
};
struct GivenRuns {
  std::span<const std::unique_ptr<GivenRun>> runs;
  std::optional<Case> lacking;  // what was asked for beyond them: the trial ended there
};

// Judges `c` by `property`. The case is adapted first; never throws on a bad
// case or kernel, only when the machine itself fails.
Verdict judge(Case c, const Property& property, Target& target, const Calibration& calibration);

// Property::adapt(); the tensors of a case that lie as is declared do so afterwards.
bool adapted(Case& c, const Property& property, const Target& target, std::string* why);

// A pass becomes kUninformative where the oracle could hold most rows to nothing: it says little.
void weigh_rows(Verdict& v);

class Trial {
 public:
  // `fast`: whether the target's fast oracle may be asked, if it has one; `compares`: Property's.
  Trial(const Case& c, Target& target, const Calibration& calibration, bool fast = true, bool compares = true);
  // Of a property that does not ask the target itself (Property::asks_target). `given` outlives it.
  Trial(const Case& c, Target& target, const Calibration& calibration, GivenRuns& given);

  const Case& base() const { return base_; }
  // A variant, its tensors moved to where what is declared has them: run() and prepare() do so too.
  Case inside(Case c) const;
  Target& target() { return target_; }
  const Calibration& calibration() const { return calibration_; }
  Verdict& verdict() { return verdict_; }

  // Runs a case and judges it alone. nullptr if it failed, was refused or could
  // not be run: the verdict says so already, and check() returns. `label` says
  // in messages which variant of the base case this was. The first case run is
  // taken as the case itself.
  const Run* run(const Case& c, std::string_view label = "");
  // Of a case that the kernel may as well refuse: then this is nullptr, too, and the trial goes on without it.
  const Run* run_if_taken(const Case& c, std::string_view label);
  // The same in the memory of the case that ran last, whose shape it has: its workspace is as those calls
  // left it, where the first call is on a dirty one.
  const Run* run_in_place(const Case& c, std::string_view label);

  // Ends the trial: the relation does not hold, or says nothing here.
  void fail(Kind kind, std::string message);
  void reject(std::string why);
  bool done() const { return verdict_.outcome != Outcome::kPass; }
  // Whether a fast oracle said anything of what was judged.
  bool asked_fast() const { return asked_fast_; }

  // For relations that run a kernel's stages: lays out and plans a case, no
  // more, and runs one stage of it, held to status and guards. What prepare()
  // returned is valid until the next run() or prepare(). nullptr or false: as run().
  Execution* prepare(const Case& c, std::string_view label = "");
  bool run_stage(Execution& prepared, Stage stage, std::string_view label = "");
  // What was laid out last, by run() too: for a property that looks at the inputs as they are (asks_target).
  const Execution* laid_out() const { return prepared_.get(); }

  // Relations between rows of two runs. Row numbers count (b,h,i) in their own
  // run. False (and failed) if they differ by more than both bounds allow, or,
  // for same_bits, at all; NaN equals NaN. What b wrote is divided by `scale`, and
  // `log_shift` (as a natural logarithm) taken from its logarithms, before they are compared.
  bool same_within(const Run& a, int64_t row_a, const Run& b, int64_t row_b, std::string_view what,
                   double scale = 1, double log_shift = 0);
  bool same_bits(const Run& a, int64_t row_a, const Run& b, int64_t row_b, std::string_view what);
  // The same for all rows of runs of one shape, call 0.
  bool all_within(const Run& a, const Run& b, std::string_view what);
  bool all_bits(const Run& a, const Run& b, std::string_view what);

 private:
  // Counts a variant; false (and ended) if it is none that can be run.
  bool begin(const Case& c, std::string_view label);
  const Run* given_run(const Case& c, std::string_view label);
  const Run* run_calls(Execution& e, std::string_view label);
  // Runs what lays out and calls the kernel, and books the time.
  RunReply timed(Execution& e, const std::function<RunReply()>& run);
  // What a run must give: what an earlier one must, if that had the same numbers and plan wherever they lay;
  // by the fast oracle if there is one. False (and failed) if it was held to the CPU's and they do not say the
  // same.
  bool evaluate(Execution& e, Run& run);
  // The CPU's word on it, in place of the fast one's. False (and failed) as above.
  bool evaluate_again(Execution& e, Run& run);
  // Holds outputs to it; what fails by the fast oracle, by the CPU's.
  bool judge_call(Execution& e, Run& run, const Outputs& outputs);
  // Fails with a relation that does not hold; false.
  bool differ(TensorId tensor, const Run& a, int64_t row, int64_t column, double x, double y, double bound,
              std::string_view what);
  // Marks the verdict with the variant it speaks of.
  void attribute(std::string_view label, int variant);

  const Case base_;
  Target& target_;
  const Calibration& calibration_;
  const bool fast_;
  const bool compares_ = true;
  GivenRuns* const given_ = nullptr;
  bool asked_fast_ = false;
  Verdict verdict_;
  int variants_ = 0;  // cases run or prepared so far
  std::vector<std::unique_ptr<Run>> runs_;
  std::unique_ptr<Execution> prepared_;
};

}  // namespace attnfuzz
