#include "properties/judge/trial.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "properties/case/codec/as_contract.h"
#include "properties/case/features/domain.h"
#include "properties/case/places/geometry.h"
#include "properties/case/places/packed.h"
#include "properties/data/recipe.h"
#include "properties/judge/judge.h"
#include "properties/judge/oracles.h"
#include "properties/judge/stopwatch.h"
#include "reference/agreement.h"
#include "reference/model/arithmetic_names.h"
#include "reference/model/arithmetic_table.h"
#include "reference/model/error_cap.h"
#include "reference/model/error_model.h"

namespace attnfuzz {
namespace {

// The most work of the oracle for a case, in multiply-adds. Beyond it, rows are sampled.
constexpr double kOracleWork = 0x1p28;
constexpr int64_t kFewestRows = 64;

// The queries of all batch entries, and their pairs with a key that exists.
struct Pairs {
  double queries = 0, pairs = 0;
};

Pairs pairs_of(const Problem& p) {
  const auto batch = static_cast<double>(p.batch), queries = static_cast<double>(p.seq_q);
  if (!p.packed_q && !p.packed_k && !p.key_lengths)
    return {batch * queries, batch * queries * static_cast<double>(p.seq_k)};
  Pairs all;
  for (int64_t b = 0; b < p.batch; ++b) {
    const Lengths of = lengths_of(p, b);
    all.queries += static_cast<double>(of.queries);
    all.pairs += static_cast<double>(of.queries) * static_cast<double>(of.keys);
  }
  return all;
}

RowSample sample_of(const Problem& p) {
  const auto [queries, pairs] = pairs_of(p);
  const double heads = static_cast<double>(p.heads_q),
               work = heads * pairs * static_cast<double>(p.dim_qk + p.dim_v);
  RowSample sample;
  if (work > kOracleWork) {
    sample.limit = std::max<int64_t>(kFewestRows, static_cast<int64_t>(kOracleWork / work * heads * queries));
    sample.seed = 1;
  }
  return sample;
}

// True if two cases of one trial with these plans have the same numbers at every (b,h,s,d); then the
// oracle's result is the same. Equal recipes have equal numbers. The place of tensors, their surroundings
// and the calls do not matter.
bool same_numbers(const Run& earlier, const Case& c, const attn_plan& plan) {
  if (earlier.on_others) return false;
  if (std::memcmp(&earlier.plan, &plan, sizeof plan) != 0) return false;
  Case there = earlier.c;
  there.env = c.env;
  there.build_kind = c.build_kind;
  there.layout = c.layout;
  there.poison = c.poison;
  there.want_lse = c.want_lse;
  there.calls = c.calls;
  return there == c;
}

// The share of the bounds of O that the best plan would not need, summed over rows that both references
// have.
std::optional<double> declared_share(const Execution& e, const Reference& reference, const Calibration& by) {
  if (e.operation.outputs.front().kind != OutputKind::kBounded) return std::nullopt;
  constexpr int64_t kRows = 16;
  const bool all = reference.sampled == RowSpace(e.c.problem).count();
  Calibration best = by;
  best.error_cap = best_plan();
  const RowSample few = {.limit = kRows, .seed = 1};
  const Reference least = e.evaluate(best, few);
  const Reference again = all ? Reference{} : e.evaluate(by, few);
  const Expected &o = (all ? reference : again).main(), &of_best = least.main();
  double declared = 0, needed = 0;
  for (int64_t row = 0; row < least.rows; ++row) {
    if (least.state[row] != RowState::kBounded) continue;
    for (int64_t i = row * o.columns; i < (row + 1) * o.columns; ++i) {
      const double x = o.allowance(i), y = of_best.allowance(i);
      if (!std::isfinite(x) || !std::isfinite(y)) continue;
      declared += x;
      needed += std::min(x, y);
    }
  }
  if (declared <= 0) return std::nullopt;
  return 1 - needed / declared;
}

std::string difference_between_calls(const Case& c, size_t call) {
  std::string message = "call " + std::to_string(call) + " gives another result than call 0";
  const Call &first = c.calls[0], &now = c.calls[call];
  if (now.dirty_workspace != first.dirty_workspace) {
    message += now.dirty_workspace ? ", on a dirty workspace" : ", on a clean workspace";
  }
  if (now.stream != first.stream) message += ", on another stream";
  return message;
}

// A case may use another arithmetic of the executor than the check was started for.
const Calibration& judged_by(const Case& c, const Target& target, const Calibration& given) {
  return target.info().backend == ATTN_CPU ? table_for(c.env.arithmetic, given) : given;
}

}  // namespace

Trial::Trial(const Case& c, Target& target, const Calibration& calibration, bool fast, bool compares)
    : base_(c),
      target_(target),
      calibration_(judged_by(c, target, calibration)),
      fast_(fast && target.oracles),
      compares_(compares || calibration.error_cap) {}

Trial::Trial(const Case& c, Target& target, const Calibration& calibration, GivenRuns& given)
    : base_(c),
      target_(target),
      calibration_(judged_by(c, target, calibration)),
      fast_(false),
      given_(&given) {}

void Trial::attribute(std::string_view label, int variant) {
  if (label.empty() || !done()) return;
  verdict_.message = "variant \"" + std::string(label) + "\": " + verdict_.message;
  verdict_.call = variant;
}

bool Trial::begin(const Case& c, std::string_view label) {
  if (done()) return false;
  const int variant = variants_++;
  if (variant > 0 && has_many_heads(c.problem)) {
    // On an executor each run takes a second. The case itself was right, and that suffices.
    verdict_.outcome = Outcome::kNotJudged;
    verdict_.message = "only the case itself was run: it has too many heads for a relation";
    return false;
  }
  if (auto why = illegal(c)) {
    reject("cannot be run: " + *why);
    attribute(label, variant);
    return false;
  }
  const Operation& operation = operation_of(c.problem.features);
  if (auto why = unknown_features(operation.known, problem_of(c.problem).features); !why.empty()) {
    reject("cannot be judged: " + why);
    attribute(label, variant);
    return false;
  }
  // The case names the executor's arithmetic; a GPU has its own.
  const int32_t arithmetic = c.env.arithmetic;
  if (target_.info().backend == ATTN_CPU && arithmetic != ATTN_ARITHMETIC_ANY &&
      calibration_.arithmetic != arithmetic) {
    reject("cannot be judged: it is in the arithmetic " + std::string(arithmetic_name(arithmetic)) +
           ", and calibration '" + calibration_.name + "' is not of that");
    attribute(label, variant);
    return false;
  }
  return true;
}

Case Trial::inside(Case c) const {
  if (target_.domain()) lay_within(*target_.domain(), c);
  return c;
}

const Run* Trial::given_run(const Case& of, std::string_view label) {
  const Case c = variants_ > 0 ? inside(of) : of;
  if (!begin(c, label)) return nullptr;
  const auto variant = static_cast<size_t>(variants_ - 1);
  if (variant >= given_->runs.size()) {
    given_->lacking = c;
    verdict_.outcome = Outcome::kNotJudged;
    verdict_.message = "not all of its runs were given";
    return nullptr;
  }
  const GivenRun& given = *given_->runs[variant];
  verdict_.worst = std::max(verdict_.worst, given.worst);
  verdict_.ratios.push_back(static_cast<float>(given.worst));
  if (variant > 0) return &given.run;
  verdict_.plan = given.run.plan;
  verdict_.assumptions = given.assumptions;
  verdict_.rows = rows_present(c.problem);
  verdict_.sampled = given.sampled;
  verdict_.dead_rows = given.dead;
  verdict_.uninformative_rows = given.uninformative;
  verdict_.unconstrained_rows = given.unconstrained;
  return &given.run;
}

Execution* Trial::prepare(const Case& of, std::string_view label, const attn_plan* earlier) {
  if (given_) throw std::logic_error("a trial of given runs prepares none: Property::asks_target");
  const Case c = variants_ > 0 ? inside(of) : of;
  if (!begin(c, label)) return nullptr;
  const int variant = variants_ - 1;
  prepared_.reset();  // only one laid-out case lives in an arena at a time
  prepared_ = std::make_unique<Execution>(c, target_, earlier);
  const Execution& e = *prepared_;
  verdict_.lay_out_s += e.lay_out_s;
  verdict_.kernel_s += e.kernel_s;
  if (accept_plan(e.planned, verdict_) && !e.no_room().empty()) reject(e.no_room());
  if (done()) {
    attribute(label, variant);
    if (verdict_.outcome == Outcome::kFail) verdict_.failing = c;
    return nullptr;
  }
  if (e.written_by_plan) {
    MemoryFault fault = *e.written_by_plan;
    fault.message += " by plan(), which must only plan";
    accept_memory(fault, c.problem, e.plan, verdict_);
    attribute(label, variant);
    verdict_.failing = c;
    return nullptr;
  }
  if (variant == 0) {
    verdict_.plan = e.plan;
    if (e.operation.feature == 0)
      verdict_.assumptions = make_error_model(e.laid.problem(), e.plan, calibration_).assumptions;
  }
  return prepared_.get();
}

RunReply Trial::timed(Execution& e, const std::function<RunReply()>& run) {
  const double lay_out_s = e.lay_out_s, kernel_s = e.kernel_s;
  RunReply reply = run();
  verdict_.lay_out_s += e.lay_out_s - lay_out_s;
  verdict_.kernel_s += e.kernel_s - kernel_s;
  return reply;
}

bool Trial::run_stage(Execution& e, Stage stage, std::string_view label) {
  if (done()) return false;
  if (accept_run(timed(e, [&] { return e.run(stage); }), verdict_)) {
    Stopwatch watch(verdict_.judge_s);
    accept_memory(e.laid.check_memory(stage != Stage::kPartial), e.c.problem, e.plan, verdict_);
  }
  attribute(label, variants_ - 1);
  return !done();
}

bool Trial::evaluate(Execution& e, Run& run) {
  Stopwatch watch(verdict_.oracle_s);
  for (const auto& earlier : runs_) {
    if (run.on_others || !same_numbers(*earlier, e.c, e.plan)) continue;
    run.reference = earlier->reference;
    run.by_fast = earlier->by_fast;
    return run.shared = true;
  }
  const RowSample sample = sample_of(e.c.problem);
  if (fast_) {
    auto reference = target_.oracles->evaluate(e.laid.problem(), e.laid.given(), e.plan, calibration_, sample);
    if (reference) {
      run.reference = std::move(*reference);
      run.by_fast = asked_fast_ = true;
      return !target_.oracles->drawn() || evaluate_again(e, run);
    }
  }
  run.reference = e.evaluate(calibration_, sample, compares_);
  return true;
}

bool Trial::evaluate_again(Execution& e, Run& run) {
  Reference reference = e.evaluate(calibration_, sample_of(e.c.problem));
  target_.oracles->count_both();
  const Agreement agreement = compare(e.laid.problem(), run.reference, reference);
  run.reference = std::move(reference);
  run.by_fast = false;
  if (agreement.difference.empty()) return true;
  fail(Kind::kOracle, "the oracle on " + target_.oracles->use().device +
                          " and the CPU's disagree, so neither is trusted: " + agreement.difference +
                          ". No fault of the kernel: report it, and judge with --oracle cpu");
  return false;
}

bool Trial::judge_call(Execution& e, Run& run, const Outputs& outputs) {
  const double worst = verdict_.worst;
  if (judge_outputs(e.operation, run.reference, e.c.problem, e.plan, outputs, verdict_, &e.c)) return true;
  if (!run.by_fast) return false;
  verdict_.outcome = Outcome::kPass;
  verdict_.kind = Kind::kNone;
  verdict_.message.clear();
  verdict_.where.reset();
  verdict_.shapes.clear();
  verdict_.worst = worst;
  verdict_.ratios.pop_back();
  // If the oracles agree and the verdicts do not, an error is as large as its bound.
  return evaluate_again(e, run) &&
         judge_outputs(e.operation, run.reference, e.c.problem, e.plan, outputs, verdict_, &e.c);
}

const Run* Trial::run(const Case& c, std::string_view label) {
  if (given_) return given_run(c, label);
  Execution* execution = prepare(c, label);
  return execution ? run_calls(*execution, label) : nullptr;
}

const Run* Trial::run_if_taken(const Case& c, std::string_view label) {
  if (done()) return nullptr;
  const int variants = variants_;
  const Run* taken = run(c, label);
  if (verdict_.outcome != Outcome::kRefused) return taken;
  verdict_.outcome = Outcome::kPass;
  verdict_.refused = false;
  verdict_.message.clear();
  verdict_.call = 0;
  variants_ = variants;
  return nullptr;
}

void Trial::note_outside_domain() {
  if (verdict_.outcome != Outcome::kRefused || !verdict_.refused || variants_ < 2) return;
  if (!prepared_ || !target_.domain() || takes(*target_.domain(), prepared_->c.problem)) return;
  verdict_.refused = false;
  verdict_.message =
      "the relation does not apply, as a variant is outside of the kernel's domain: " + verdict_.message;
}

const Run* Trial::run_in_place(const Case& c, std::string_view label) {
  if (given_) {
    const Run* given = given_run(c, label);
    given_->in_place = given_->lacking.has_value();
    return given;
  }
  std::vector<std::byte> left;
  if (prepared_) {
    const auto bytes = prepared_->laid.workspace();
    left.assign(bytes.begin(), bytes.end());
  }
  Execution* execution = prepare(c, label);
  if (!execution) return nullptr;
  if (execution->laid.workspace().size() == left.size()) execution->laid.keep_workspace(left);
  return run_calls(*execution, label);
}

const Run* Trial::run_after(const Run& earlier, const Case& c, std::string_view label) {
  Execution* execution = prepare(c, label);
  if (!execution) return nullptr;
  for (const TensorId t : kStates) {
    if (is_present(c, t)) execution->laid.keep_state(t, earlier.calls[0].integers(t));
  }
  return run_calls(*execution, label);
}

const Run* Trial::run_given(const Case& c, std::span<const GivenInput> inputs, std::string_view label) {
  Execution* execution = prepare(c, label);
  if (!execution) return nullptr;
  for (const GivenInput& input : inputs) execution->laid.derive(input.tensor, bytes_of(c, input));
  return run_calls(*execution, label, /*on_others=*/true);
}

const Run* Trial::run_on_plan(const Case& c, const attn_plan& earlier, std::string_view label) {
  Execution* execution = prepare(c, label, &earlier);
  return execution ? run_calls(*execution, label) : nullptr;
}

const Run* Trial::run_calls(Execution& e, std::string_view label, bool on_others) {
  const int variant = variants_ - 1;
  const Case& c = e.c;
  const Problem& p = c.problem;
  auto run = std::make_unique<Run>();
  run->c = c;
  run->plan = e.plan;
  run->on_others = e.laid.keeps_states() || on_others;

  for (size_t n = 0; n < c.calls.size() && !done(); ++n) {
    verdict_.call = static_cast<int>(n);
    if (!accept_run(timed(e, [&] { return e.run(c.calls[n]); }), verdict_)) break;
    if (n == 0) {
      // The oracle runs once for each case, because check_memory() below fails a call that changed
      // an input. Tables that it uses as indices are copies (LaidOut::given()).
      if (!evaluate(e, *run)) break;
      if (variant == 0 && e.operation.feature != 0) verdict_.assumptions = run->reference.assumptions;
      if (variant == 0 && calibration_.error_cap)
        verdict_.declared = declared_share(e, run->reference, calibration_);
    }
    Stopwatch watch(verdict_.judge_s);
    if (!accept_memory(e.laid.check_memory(), p, e.plan, verdict_)) break;
    run->calls.push_back(e.outputs());
    if (n > 0) {
      // If a call has the bits of the first one, it needs no second check. Other bits fail if the plan promises
      // equal ones, whatever the oracle would say.
      Verdict same;
      if (judge_same(run->calls[0], run->calls[n], p, e.plan, Kind::kDirty, difference_between_calls(c, n),
                     same))
        continue;
      if (e.plan.deterministic) {
        attnfuzz::fail(verdict_, same.kind, same.message);
        verdict_.where = same.where;
        break;
      }
    }
    if (!judge_call(e, *run, run->calls[n])) break;
  }
  if (!done()) verdict_.call = 0;
  if (variant == 0) {
    const Reference& r = run->reference;
    note_rows(p, r, verdict_);
    Stopwatch watch(verdict_.judge_s);
    if (!done()) verdict_.warning = statistical_warning(c, e.plan, r, run->calls[0]);
  }
  attribute(label, variant);
  if (verdict_.outcome == Outcome::kFail) verdict_.failing = c;
  if (done()) return nullptr;
  runs_.push_back(std::move(run));
  return runs_.back().get();
}

void Trial::fail(Kind kind, std::string message) { attnfuzz::fail(verdict_, kind, std::move(message)); }

void Trial::reject(std::string why) {
  if (done()) return;
  verdict_.outcome = Outcome::kRefused;
  verdict_.message = std::move(why);
}

void note_rows(const Problem& p, const Reference& reference, Verdict& v) {
  v.rows = rows_present(p);
  v.sampled = reference.sampled;
  v.dead_rows = reference.dead;
  v.uninformative_rows = reference.uninformative;
  v.unconstrained_rows = reference.unconstrained;
}

}  // namespace attnfuzz
