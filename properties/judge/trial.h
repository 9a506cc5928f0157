// Judges one case by one property.
//
//   Verdict v = judge(case, property, target, calibration);
//
// A property's check() is given a Trial. Trial::run() lays out a case, plans it, runs its calls, and checks
// every call for what must hold of any right kernel: status, redzones, completeness, dead rows, finiteness,
// and outputs within the oracle's bound. Only then does the property compare runs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "properties/judge/execution.h"
#include "properties/judge/given_call.h"
#include "properties/judge/property.h"
#include "properties/judge/verdict.h"
#include "reference/model/assumption.h"
#include "reference/model/calibration.h"
#include "reference/oracle.h"

namespace attnfuzz {

// A case that ran and was right in every call.
struct Run {
  Case c;
  attn_plan plan = {};
  Reference reference;
  bool by_fast = false;    // the reference is a fast oracle's (oracles.h)
  bool shared = false;     // the reference is that of an earlier run with the same numbers
  bool on_others = false;  // it ran on states that an earlier run had left, or on given inputs
  std::vector<Outputs> calls;

  // An output of the first call; relations compare these.
  const std::vector<float>& operator[](TensorId t) const { return calls[0][t]; }
};

// Runs that were made and judged elsewhere, many cases at a time (fuzz/batch), and were right. A trial that
// is given them runs nothing: it takes them in the order in which its property asks.
struct GivenRun {
  Run run;
  double worst = 0;                                                     // largest error/bound
  int64_t sampled = 0, dead = 0, uninformative = 0, unconstrained = 0;  // rows
  std::vector<Assumption> assumptions;
};
struct GivenRuns {
  std::span<const std::unique_ptr<GivenRun>> runs;
  std::optional<Case> lacking;  // a case that was asked for and was not among them; it ended the trial
  bool in_place = false;        // `lacking` runs in the memory of the last of `runs` (Trial::run_in_place)
};

// Judges `c` by `property`, after adapting it. Never throws because of a bad case or kernel, only if the
// machine itself fails.
Verdict judge(Case c, const Property& property, Target& target, const Calibration& calibration);

// Removes from a case the features that the property's runs do not have, by its flags.
void keep_known(const Property& property, Case& c);

// Property::adapt(). If the tensors lie as the domain declares, they still do so afterwards.
bool adapted(Case& c, const Property& property, const Target& target, std::string* why);

// Why judge() would run another operation than the one that the case asks for; empty if it would not. A drawn
// case may become any operation that the kernel has, but the case of a file is that one case.
std::string other_operation(Case c, const Property& property, const Target& target);

// Notes how many rows a call has, and how many of them the oracle could hardly bound.
void note_rows(const Problem& p, const Reference& reference, Verdict& v);

// Turns a pass into kNotJudged if the oracle could not bound most rows, because such a pass says
// little.
void weigh_rows(Verdict& v);

class Trial {
 public:
  // `fast`: true if the target's fast oracle may be asked, if it has one. `compares`: see Property.
  Trial(const Case& c, Target& target, const Calibration& calibration, bool fast = true, bool compares = true);
  // Makes the trial of a property that does not use the target itself (Property::asks_target). `given` must
  // outlive it.
  Trial(const Case& c, Target& target, const Calibration& calibration, GivenRuns& given);

  const Case& base() const { return base_; }
  // A variant with its tensors moved to where the domain wants them. run() and prepare() do this, too.
  Case inside(Case c) const;
  Target& target() { return target_; }
  const Calibration& calibration() const { return calibration_; }
  Verdict& verdict() { return verdict_; }

  // Runs a case and judges it by itself. nullptr if it failed, was refused or cannot be run: then the verdict
  // says so, and check() returns. `label` names this variant of the base case in messages. The first case that
  // is run counts as the case itself.
  const Run* run(const Case& c, std::string_view label = "");
  // run() for a variant that the kernel may refuse: nullptr then, and the trial goes on without it.
  const Run* run_if_taken(const Case& c, std::string_view label);
  // Called after check(). If it ended because the kernel refused a variant outside of its domain, the verdict
  // says that the relation does not apply. This is no refusal by the kernel (Verdict::refused).
  void note_outside_domain();
  // run() in the memory of the last case, which must have the same shape. If the first call is on a
  // dirty workspace, it finds what those calls left there.
  const Run* run_in_place(const Case& c, std::string_view label);

  // run() on the states that the first call of `earlier` has left. They must have the sizes of the case.
  const Run* run_after(const Run& earlier, const Case& c, std::string_view label);

  // run() on inputs that no fill gives. They replace those of the case.
  const Run* run_given(const Case& c, std::span<const GivenInput> inputs, std::string_view label);

  // run() by a plan that was made for another case of the same sizes and layout, as a captured graph does.
  const Run* run_on_plan(const Case& c, const attn_plan& earlier, std::string_view label);

  // Ends the trial: the relation does not hold, or it does not apply here.
  void fail(Kind kind, std::string message);
  void reject(std::string why);
  bool done() const { return verdict_.outcome != Outcome::kPass; }
  // True if a fast oracle evaluated any of the runs.
  bool asked_fast() const { return asked_fast_; }

  // For relations that run a kernel's stages. prepare() lays out and plans a case; run_stage() runs one stage
  // and checks status and redzones. The result of prepare() is valid until the next run() or prepare(). nullptr
  // or false: as in run().
  Execution* prepare(const Case& c, std::string_view label = "", const attn_plan* earlier = nullptr);
  bool run_stage(Execution& prepared, Stage stage, std::string_view label = "");
  // The last laid-out case, also of run(), for a property that looks at the inputs (asks_target).
  const Execution* laid_out() const { return prepared_.get(); }

  // Compare a row of two runs. A row number counts (b,h,i) in its own run. False, and failed, if they differ by
  // more than both bounds allow; for same_bits, if they differ at all. NaN equals NaN. Before the comparison,
  // b's values are divided by `scale`, and `log_shift` (a natural logarithm) is subtracted from its logarithms.
  bool same_within(const Run& a, int64_t row_a, const Run& b, int64_t row_b, std::string_view what,
                   double scale = 1, double log_shift = 0);
  bool same_bits(const Run& a, int64_t row_a, const Run& b, int64_t row_b, std::string_view what);
  // True if both plans promise the same arithmetic for a row (same_work.h), so that a relation compares bit for
  // bit. The verdict says that it did, or why not.
  bool promise_bits(const attn_plan& a, const attn_plan& b);
  // Says in the verdict that a relation compares bit for bit (`why_not` is empty; returns true), or why it does
  // not.
  bool note_bits(std::string why_not);
  // Compares an output of keys, or any other, element by element. The functions above compare outputs of
  // queries.
  bool same_elements(TensorId tensor, const Run& a, const Run& b, std::string_view what, double scale = 1);
  // Compare all outputs of call 0 of two runs of one shape: within both bounds, or bit for bit.
  bool all_within(const Run& a, const Run& b, std::string_view what);
  bool all_bits(const Run& a, const Run& b, std::string_view what);

 private:
  // Counts a variant. False, and ended, if it cannot be run.
  bool begin(const Case& c, std::string_view label);
  const Run* given_run(const Case& c, std::string_view label);
  // `on_others`: the inputs are given, not the case's own (Run::on_others).
  const Run* run_calls(Execution& e, std::string_view label, bool on_others = false);
  // Runs code that lays out and calls the kernel, and records its time.
  RunReply timed(Execution& e, const std::function<RunReply()>& run);
  // Finds what a run must give. If an earlier run had the same numbers and plan, its reference is reused,
  // wherever the tensors lay. Otherwise the fast oracle is asked, if there is one. False, and failed, if it was
  // compared with the CPU's oracle and they disagree.
  bool evaluate(Execution& e, Run& run);
  // Replaces the fast oracle's reference by the CPU's. False, and failed, if they disagree.
  bool evaluate_again(Execution& e, Run& run);
  // Judges outputs. If they fail by the fast oracle, they are judged by the CPU's.
  bool judge_call(Execution& e, Run& run, const Outputs& outputs);
  // Fails with a relation that does not hold; returns false.
  bool differ(TensorId tensor, const Run& a, int64_t row, int64_t column, double x, double y, double bound,
              std::string_view what);
  // Names the variant in the verdict.
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
