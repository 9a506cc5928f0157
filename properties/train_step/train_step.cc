#include "properties/train_step/train_step.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "properties/judge/judge.h"
#include "properties/judge/lse_base.h"

namespace attnfuzz::train {
namespace {

using enum TensorId;

// The name of a tensor in a step of training.
std::string name_in_step(TensorId t) { return t == kSavedO ? "o" : t == kSavedLse ? "lse" : name_of(t); }

// The expected numbers, with NaN wherever the oracle does not expect one number.
std::vector<double> numbers_due(const Expected& due) {
  std::vector<double> numbers = due.value;
  for (size_t n = 0; n < numbers.size(); ++n) {
    if (static_cast<Due>(due.rule[n]) != Due::kNumber) numbers[n] = std::numeric_limits<double>::quiet_NaN();
  }
  return numbers;
}

class Training {
 public:
  Training(const Batch& batch, const Setup& setup, const TrainStep& on)
      : batch_(batch),
        setup_(setup),
        on_(on),
        model_(with_lengths(setup.model, lengths_of(batch, 1)),
               hash64(batch.seed ^ static_cast<uint64_t>(2 * batch.length + batch.packed))) {}

  Trained run() {
    for (step_ = 1; step_ <= kSteps && !result_.failure && result_.refused.empty(); ++step_) {
      note_gates();
      step();
    }
    if (!result_.failure && result_.refused.empty()) note_gates();
    return std::move(result_);
  }

 private:
  static ModelShape with_lengths(ModelShape shape, const std::vector<int64_t>& lengths) {
    shape.lengths = lengths;
    return shape;
  }

  void note_gates() {
    if (result_.note.empty()) result_.note = note_on_gates(model_.gates());
  }

  std::vector<float> of_queries(std::span<const double> x) const {
    return by_sequence(x, lengths_, setup_.model.heads_q);
  }
  std::vector<float> of_keys(std::span<const double> x) const {
    return by_sequence(x, lengths_, setup_.model.heads_kv);
  }

  Case case_of_pass(uint64_t operation, const Target& target) const {
    return case_of(batch_, step_, setup_, operation_of(operation), target.info());
  }

  void step() {
    lengths_ = lengths_of(batch_, step_);
    const Case forward_case = case_of_pass(0, on_.forward),
               backward_case = case_of_pass(ATTN_FEATURE_BACKWARD, on_.backward);
    const Activations a = model_.project();
    std::vector<GivenInput> inputs = {{kQ, of_queries(a.q)}, {kK, of_keys(a.k)}, {kV, of_keys(a.v)}};
    const GivenCall forward = call(false, forward_case, inputs, on_.forward, on_.of_forward, left_by_forward_);
    const std::vector<float>& saved_o = forward.outputs[kO];
    if (saved_o.empty() || !result_.refused.empty()) return;
    const std::vector<double> o = by_token<float>(saved_o, lengths_, setup_.model.heads_q);
    result_.losses.push_back(model_.loss(o));
    if (!forward.reference.outputs.empty())
      result_.due.push_back(
          model_.loss(by_token<double>(numbers_due(forward.reference[kO]), lengths_, setup_.model.heads_q)));
    if (result_.failure) return say_loss();
    if (!std::isfinite(result_.losses.back()))
      return not_finite_though_right(false, forward_case, inputs, "the loss");

    inputs.push_back({kDout, of_queries(model_.gradient_of_output(o))});
    inputs.push_back({kSavedO, saved_o});
    inputs.push_back({kSavedLse, forward.outputs[kLse]});
    lse_base_ = forward.plan.lse_base;
    const GivenCall backward =
        call(true, backward_case, inputs, on_.backward, on_.of_backward, left_by_backward_);
    if (result_.failure || !result_.refused.empty()) return;
    const Activations d = {{},
                           by_token<float>(backward.outputs[kDq], lengths_, setup_.model.heads_q),
                           by_token<float>(backward.outputs[kDk], lengths_, setup_.model.heads_kv),
                           by_token<float>(backward.outputs[kDv], lengths_, setup_.model.heads_kv)};
    const Parameters gradients = model_.gradients(a, o, d);
    if (const std::string name = not_finite(gradients); !name.empty())
      return not_finite_though_right(true, backward_case, inputs, "the gradient of " + name);
    model_.update(gradients, setup_.rate);
  }

  // Calls a kernel and judges the call. From step 2 on, the workspace holds the bytes that the last step left
  // there.
  GivenCall call(bool of_backward, const Case& c, std::vector<GivenInput>& inputs, Target& target,
                 const Calibration& calibration, std::vector<std::byte>& left) {
    if (of_backward) {
      const attn_plan plan = plan_alone(c, target).plan;
      inputs.back().elements = lse_in_base(std::move(inputs.back().elements), lse_base_, plan.lse_base);
    }
    const Before before = step_ == 1 ? Before::kPoison : Before::kLeft;
    GivenCall called = judge_given(c, inputs, target, calibration, before, left);
    called.verdict.property = "train_step";
    result_.worst = std::max(result_.worst, called.verdict.worst);
    left = called.workspace;
    const Verdict& v = called.verdict;
    if (v.outcome == Outcome::kRefused || v.outcome == Outcome::kNotJudged) {
      result_.refused = target.info().name + ": " + v.message;
    } else if (v.outcome == Outcome::kFail) {
      fail(of_backward, c, inputs, v, called.changed);
    }
    return called;
  }

  // `changed`: the input that the kernel has written to.
  void fail(bool of_backward, const Case& c, const std::vector<GivenInput>& inputs, const Verdict& verdict,
            std::optional<TensorId> changed = std::nullopt) {
    std::string what = of_backward ? "backward" : "forward";
    if (changed) what += " changed the saved tensor " + name_in_step(*changed);
    const std::string where = describe(batch_, step_) + ", step " + std::to_string(step_);
    result_.failure = StepFailure{.step = step_,
                                  .of_backward = of_backward,
                                  .message = where + ": " + what + ": " + verdict.message,
                                  .verdict = verdict,
                                  .c = c,
                                  .inputs = inputs};
  }

  void say_loss() {
    if (const double loss = result_.losses.back(); !std::isfinite(loss))
      result_.failure->message += "; the loss is " + digits(loss);
  }

  // Fails the step, although the oracle allows every element: training cannot go on from such a number.
  void not_finite_though_right(bool of_backward, const Case& c, const std::vector<GivenInput>& inputs,
                               const std::string& what) {
    Verdict v;
    v.property = "train_step";
    attnfuzz::fail(v, Kind::kNonFinite, what + " is not finite, though the oracle allows every element");
    fail(of_backward, c, inputs, v);
  }

  const Batch batch_;
  const Setup setup_;
  const TrainStep& on_;
  Model model_;
  int step_ = 1;
  std::vector<int64_t> lengths_;  // of the step
  int32_t lse_base_ = 0;
  std::vector<std::byte> left_by_forward_, left_by_backward_;
  Trained result_;
};

}  // namespace

Trained train(const Batch& batch, const Setup& setup, const TrainStep& on) {
  Trained refused;
  refused.refused = refused_by(batch, setup, on);
  return refused.refused.empty() ? Training(batch, setup, on).run() : refused;
}

}  // namespace attnfuzz::train
