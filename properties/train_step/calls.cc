#include "properties/train_step/calls.h"

#include <cmath>
#include <limits>

#include "properties/judge/judge.h"
#include "properties/judge/lse_base.h"

namespace attnfuzz::train {
namespace {

using enum TensorId;

// The name of a tensor in a step of training.
std::string name_in_step(TensorId t) { return t == kSavedO ? "o" : t == kSavedLse ? "lse" : name_of(t); }

}  // namespace

std::vector<double> numbers_due(const Expected& due) {
  std::vector<double> numbers = due.value;
  for (size_t n = 0; n < numbers.size(); ++n) {
    if (static_cast<Due>(due.rule[n]) != Due::kNumber) numbers[n] = std::numeric_limits<double>::quiet_NaN();
  }
  return numbers;
}

std::vector<float> lse_for(const GivenCall& forward, const Case& c, Target& reader) {
  return lse_in_base(forward.outputs[kLse], forward.plan.lse_base, plan_alone(c, reader).plan.lse_base);
}

Trained Calls::run(const Model& model, const std::function<void()>& step) {
  while (step_ < kSteps && go_on()) {
    note_gates(model);
    ++step_;
    step();
  }
  if (go_on()) note_gates(model);
  return std::move(result);
}

void Calls::note_gates(const Model& model) {
  if (result.note.empty()) result.note = note_on_gates(model.gates());
}

GivenCall Calls::make(const Pass& pass, const Case& c, const std::vector<GivenInput>& inputs) {
  const auto& [target, calibration] = pass.kernel;
  std::vector<std::byte>& left = left_[pass.number];
  const Before before = step_ == 1 ? Before::kPoison : Before::kLeft;
  GivenCall made = judge_given(c, inputs, *target, *calibration, before, left);
  made.verdict.property = "train_step";
  result.worst = std::max(result.worst, made.verdict.worst);
  left = made.workspace;
  const Verdict& v = made.verdict;
  if (v.outcome == Outcome::kRefused || v.outcome == Outcome::kNotJudged) {
    result.refused = target->info().name + ": " + v.message;
  } else if (v.outcome == Outcome::kFail) {
    fail(pass, c, inputs, v, made.changed);
  }
  return made;
}

void Calls::fail(const Pass& pass, const Case& c, const std::vector<GivenInput>& inputs, const Verdict& verdict,
                 std::optional<TensorId> changed) {
  std::string what = pass.name;
  if (changed) what += " changed the saved tensor " + name_in_step(*changed);
  const std::string where = describe(batch_, step_) + ", step " + std::to_string(step_);
  result.failure = StepFailure{.step = step_,
                               .pass = pass.number,
                               .message = where + ": " + what + ": " + verdict.message,
                               .verdict = verdict,
                               .c = c,
                               .inputs = inputs};
}

void Calls::fail_non_finite(const Pass& pass, const Case& c, const std::vector<GivenInput>& inputs,
                            const std::string& what) {
  Verdict v;
  v.property = "train_step";
  attnfuzz::fail(v, Kind::kNonFinite, what + " is not finite, though the oracle allows every element");
  fail(pass, c, inputs, v);
}

void Calls::say_loss() {
  if (const double loss = result.losses.back(); !std::isfinite(loss))
    result.failure->message += "; the loss is " + digits(loss);
}

}  // namespace attnfuzz::train
