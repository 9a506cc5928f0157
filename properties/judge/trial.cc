#include "properties/judge/trial.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>

#include "properties/judge/judge.h"
#include "reference/error_model.h"

namespace attnfuzz {
namespace {

// Adds the time until the end of its life to one stage of a verdict.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  const Clock::time_point start_ = Clock::now();
};

// The oracle's work that a case may cost, in multiply-adds; beyond it rows are sampled.
constexpr double kOracleWork = 0x1p28;
constexpr int64_t kFewestRows = 64;

RowSample sample_of(const Problem& p) {
  const double row = static_cast<double>(p.seq_k) * static_cast<double>(p.dim_qk + p.dim_v);
  const double rows =
      static_cast<double>(p.batch) * static_cast<double>(p.heads_q) * static_cast<double>(p.seq_q);
  RowSample sample;
  if (row * rows > kOracleWork) {
    sample.limit = std::max<int64_t>(kFewestRows, static_cast<int64_t>(kOracleWork / row));
    sample.seed = 1;
  }
  return sample;
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

}  // namespace

Trial::Trial(const Case& c, Target& target, const Calibration& calibration)
    : base_(c), target_(target), calibration_(calibration) {}

void Trial::attribute(std::string_view label, int variant) {
  if (label.empty() || !done()) return;
  verdict_.message = "variant \"" + std::string(label) + "\": " + verdict_.message;
  verdict_.call = variant;
}

Prepared* Trial::prepare(const Case& c, std::string_view label) {
  if (done()) return nullptr;
  const int variant = variants_++;
  if (variant > 0 && has_many_heads(c.problem)) {
    // A second a run, on an executor: the case itself was right, and that must do.
    verdict_.outcome = Outcome::kUninformative;
    verdict_.message = "only the case itself was run: of so many heads a relation is not tried";
    return nullptr;
  }
  if (auto why = illegal(c)) {
    reject("cannot be run: " + *why);
    attribute(label, variant);
    return nullptr;
  }
  prepared_.reset();  // one laid-out case lives in an arena at a time
  prepared_ = std::make_unique<Prepared>();
  Prepared& prepared = *prepared_;
  prepared.c = c;
  {
    Stopwatch watch(verdict_.lay_out_s);
    prepared.laid = std::make_unique<LaidOut>(c, target_.arena());
  }
  prepared.env = prepared.laid->env();
  prepared.env.backend = target_.info().backend;
  target_.memory(prepared.laid->ranges());
  PlanReply reply;
  {
    Stopwatch watch(verdict_.kernel_s);
    reply = target_.plan(prepared.laid->problem(), prepared.laid->tensors(), prepared.env);
  }
  if (!accept_plan(reply, verdict_)) {
    attribute(label, variant);
    if (verdict_.outcome == Outcome::kFail) verdict_.failing = c;
    return nullptr;
  }
  constexpr uint64_t kMostBytes = kMaxCaseBytes, kMostAlign = uint64_t{1} << 20;
  if (reply.plan.workspace_bytes > kMostBytes || reply.plan.workspace_align > kMostAlign) {
    reject("the plan wants " + std::to_string(reply.plan.workspace_bytes) + " bytes of workspace aligned to " +
           std::to_string(reply.plan.workspace_align) + "; given are at most " + std::to_string(kMostBytes) +
           " aligned to " + std::to_string(kMostAlign));
    attribute(label, variant);
    return nullptr;
  }
  prepared.plan = reply.plan;
  {
    Stopwatch watch(verdict_.lay_out_s);
    prepared.laid->give_workspace(reply.plan.workspace_bytes, reply.plan.workspace_align);
  }
  target_.memory(prepared.laid->ranges());
  if (variant == 0) {
    verdict_.plan = prepared.plan;
    const ErrorModel model = make_error_model(prepared.laid->problem(), prepared.plan, calibration_);
    verdict_.assumptions = model.assumptions;
  }
  return &prepared;
}

bool Trial::run_stage(Prepared& prepared, Stage stage, std::string_view label) {
  if (done()) return false;
  const Problem& p = prepared.c.problem;
  RunReply reply;
  {
    Stopwatch watch(verdict_.kernel_s);
    reply =
        target_.run(stage, prepared.laid->problem(), prepared.laid->tensors(), prepared.plan, prepared.env, 0);
  }
  if (accept_run(reply, verdict_)) {
    Stopwatch watch(verdict_.judge_s);
    accept_memory(prepared.laid->check_memory(stage != Stage::kPartial), p, prepared.plan, verdict_);
  }
  attribute(label, variants_ - 1);
  return !done();
}

const Run* Trial::run(const Case& c, std::string_view label) {
  Prepared* prepared = prepare(c, label);
  if (!prepared) return nullptr;
  const int variant = variants_ - 1;
  LaidOut& laid = *prepared->laid;
  const attn_plan& plan = prepared->plan;
  const Problem& p = c.problem;
  auto run = std::make_unique<Run>();
  run->c = c;
  run->plan = plan;

  for (size_t n = 0; n < c.calls.size() && !done(); ++n) {
    verdict_.call = static_cast<int>(n);
    {
      Stopwatch watch(verdict_.lay_out_s);
      laid.before_call(c.calls[n]);
    }
    RunReply reply;
    {
      Stopwatch watch(verdict_.kernel_s);
      reply = target_.run(Stage::kAll, laid.problem(), laid.tensors(), plan, prepared->env, c.calls[n].stream);
    }
    if (!accept_run(reply, verdict_)) break;
    if (n == 0) {
      // Once a case: check_memory() below says if a call changed an input.
      Stopwatch watch(verdict_.oracle_s);
      run->reference = evaluate(laid.problem(), laid.tensors(), plan, calibration_, sample_of(p));
    }
    Stopwatch watch(verdict_.judge_s);
    if (!accept_memory(laid.check_memory(), p, plan, verdict_)) break;
    run->o.push_back(laid.read_o());
    run->lse.push_back(laid.read_lse());
    if (n > 0) {
      // The same bits as the first call's need no second look; others are a
      // matter of state, whatever the oracle would say of them.
      Verdict same;
      const std::string message = difference_between_calls(c, n);
      judge_same("o", run->o[0], run->o[n], p, plan, Kind::kDirty, message, same) &&
          judge_same("lse", run->lse[0], run->lse[n], p, plan, Kind::kDirty, message, same);
      if (same.outcome == Outcome::kPass) continue;
      if (plan.deterministic) {
        attnfuzz::fail(verdict_, same.kind, same.message);
        verdict_.where = same.where;
        break;
      }
    }
    if (!judge_outputs(run->reference, p, plan, run->o[n], run->lse[n], verdict_, &c)) break;
  }
  if (!done()) verdict_.call = 0;
  if (variant == 0) {
    const Reference& r = run->reference;
    verdict_.rows = p.batch * p.heads_q * p.seq_q;
    verdict_.sampled = r.sampled;
    verdict_.dead_rows = r.dead;
    verdict_.uninformative_rows = r.uninformative;
    verdict_.unconstrained_rows = r.unconstrained;
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
  verdict_.outcome = Outcome::kReject;
  verdict_.message = std::move(why);
}

bool Trial::same_within(const Run& a, int64_t row_a, const Run& b, int64_t row_b, std::string_view what,
                        double scale, double lse_shift) {
  if (done()) return false;
  const Reference &ra = a.reference, &rb = b.reference;
  const auto compared = [](RowState s) { return s == RowState::kBounded || s == RowState::kDead; };
  if (!compared(ra.state[row_a]) || !compared(rb.state[row_b])) return true;
  // A shift of -inf is none, even by NaN.
  if (ra.state[row_a] == RowState::kDead && rb.state[row_b] == RowState::kDead) return true;
  const auto differ = [&](const char* tensor, int64_t column, double x, double y, double bound) {
    Where where = where_is(tensor, a.c.problem, a.plan, row_a, column);
    where.expected = x;
    where.got = y;
    where.bound = bound;
    where.bad = where.of = 1;
    fail(Kind::kRelation, std::string(what) + ": " + name_of(where) + " is " + digits(x) + " in one and " +
                              digits(y) + " in the other, which may differ by " + digits(bound) + " at most");
    verdict_.where = where;
    return false;
  };
  const int64_t n = ra.dim_v;
  for (int64_t column = 0; column < n; ++column) {
    const int64_t ia = row_a * n + column, ib = row_b * n + column;
    if (ra.o_nan[ia] != 0 || rb.o_nan[ib] != 0) continue;  // each was held to its own oracle
    const double x = a.o[0][ia], y = b.o[0][ib] / scale;
    const double bound = ra.o_bound[ia] + rb.o_bound[ib] / std::fabs(scale);
    if (x != y && std::isfinite(x) && std::isfinite(y) && !(std::fabs(x - y) <= bound)) {
      return differ("o", column, x, y, bound);
    }
  }
  if (a.lse[0].empty() || b.lse[0].empty()) return true;
  const double x = a.lse[0][row_a], y = b.lse[0][row_b] - lse_shift;
  const double bound = ra.lse_bound[row_a] + rb.lse_bound[row_b];
  return x == y || std::fabs(x - y) <= bound || differ("lse", 0, x, y, bound);
}

bool Trial::same_bits(const Run& a, int64_t row_a, const Run& b, int64_t row_b, std::string_view what) {
  if (done()) return false;
  const auto same = [&](const char* tensor, std::span<const float> x, std::span<const float> y) {
    const std::optional<int64_t> first = first_difference(x, y);
    if (!first) return true;
    Where where = where_is(tensor, a.c.problem, a.plan, row_a, *first);
    where.expected = x[*first];
    where.got = y[*first];
    where.bad = where.of = 1;
    fail(Kind::kRelation, std::string(what) + ": " + name_of(where) + " is " + digits(where.expected) +
                              " in one and " + digits(where.got) + " in the other, must be bit-identical");
    verdict_.where = where;
    return false;
  };
  const int64_t n = a.c.problem.dim_v;
  const std::span<const float> oa = a.o[0], ob = b.o[0], la = a.lse[0], lb = b.lse[0];
  if (!same("o", oa.subspan(row_a * n, n), ob.subspan(row_b * n, n))) return false;
  return la.empty() || lb.empty() || same("lse", la.subspan(row_a, 1), lb.subspan(row_b, 1));
}

bool Trial::all_within(const Run& a, const Run& b, std::string_view what) {
  for (int64_t row = 0; row < a.reference.rows; ++row) {
    if (!same_within(a, row, b, row, what)) return false;
  }
  return !done();
}

bool Trial::all_bits(const Run& a, const Run& b, std::string_view what) {
  const std::string message = std::string(what) + ": must be bit-identical";
  const Problem& p = a.c.problem;
  return judge_same("o", a.o[0], b.o[0], p, a.plan, Kind::kRelation, message, verdict_) &&
         (a.lse[0].empty() || b.lse[0].empty() ||
          judge_same("lse", a.lse[0], b.lse[0], p, a.plan, Kind::kRelation, message, verdict_));
}

Verdict judge(Case c, const Property& property, Target& target, const Calibration& calibration) {
  std::string why;
  if (!property.adapt(c, target.info(), &why)) {
    Verdict v;
    v.property = property.name;
    v.outcome = Outcome::kReject;
    v.message = why;
    return v;
  }
  Trial trial(c, target, calibration);
  trial.verdict().property = property.name;
  property.check(trial);
  Verdict v = std::move(trial.verdict());
  // Rows that the oracle could hold to nothing: a pass that says little.
  if (v.outcome == Outcome::kPass && 2 * (v.uninformative_rows + v.unconstrained_rows) > v.sampled) {
    v.outcome = Outcome::kUninformative;
    v.message = std::to_string(v.uninformative_rows) + " uninformative and " +
                std::to_string(v.unconstrained_rows) + " unconstrained of " + std::to_string(v.sampled) +
                " rows";
  }
  return v;
}

}  // namespace attnfuzz
