#include "properties/train_step/train_step.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "properties/judge/judge.h"
#include "properties/train_step/batch.h"
#include "properties/train_step/name_fault.h"

namespace attnfuzz::train {
namespace {

using enum TensorId;

const Operation& forward_pass() { return operation_of(0); }
const Operation& backward_pass() { return operation_of(ATTN_FEATURE_BACKWARD); }

// Setups in the order in which they are tried: small ones first, to keep a step short.
std::vector<Setup> setups() {
  std::vector<Setup> all;
  for (const bool causal : {true, false}) {
    for (const int32_t dtype : {ATTN_F16, ATTN_BF16}) {
      for (const int64_t dim : {16, 32, 64, 128}) {
        for (const int64_t heads_kv : {1, 2}) {
          Setup setup;
          setup.causal = causal;
          setup.model.heads_kv = heads_kv;
          setup.model.dim = dim;
          setup.model.dtype = dtype;
          all.push_back(setup);
        }
      }
    }
  }
  return all;
}

// Why one of the kernels does not take the batch; empty: both do.
std::string refused_by(const Batch& batch, const Setup& setup, const TrainStep& on) {
  std::string why = refusal_of(case_of(batch, setup, forward_pass(), on.forward.info()), on.forward);
  if (why.empty()) why = refusal_of(case_of(batch, setup, backward_pass(), on.backward.info()), on.backward);
  return why;
}

// The expected numbers, with NaN wherever the oracle does not expect one number.
std::vector<double> numbers_due(const Expected& due) {
  std::vector<double> numbers = due.value;
  for (size_t n = 0; n < numbers.size(); ++n) {
    if (static_cast<Due>(due.rule[n]) != Due::kNumber) numbers[n] = std::numeric_limits<double>::quiet_NaN();
  }
  return numbers;
}

// Converts LSEs from one base to another (attn_plan.lse_base).
std::vector<float> in_base(std::vector<float> lse, int32_t from, int32_t to) {
  if ((from == 2) == (to == 2)) return lse;
  const double factor = from == 2 ? std::log(2.0) : 1 / std::log(2.0);
  for (float& x : lse) x = static_cast<float>(x * factor);
  return lse;
}

class Training {
 public:
  Training(const Batch& batch, const Setup& setup, uint64_t seed, const TrainStep& on)
      : batch_(batch),
        shape_(setup.model),
        rate_(setup.rate),
        on_(on),
        lengths_(lengths_of(batch)),
        forward_case_(case_of(batch, setup, forward_pass(), on.forward.info())),
        backward_case_(case_of(batch, setup, backward_pass(), on.backward.info())),
        model_(with_lengths(shape_, lengths_),
               hash64(seed ^ static_cast<uint64_t>(2 * batch.length + batch.packed))) {}

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
    return by_sequence(x, lengths_, shape_.heads_q);
  }
  std::vector<float> of_keys(std::span<const double> x) const {
    return by_sequence(x, lengths_, shape_.heads_kv);
  }

  void step() {
    const Activations a = model_.project();
    std::vector<GivenInput> inputs = {{kQ, of_queries(a.q)}, {kK, of_keys(a.k)}, {kV, of_keys(a.v)}};
    const GivenCall forward = call(false, forward_case_, inputs, on_.forward, on_.of_forward, left_by_forward_);
    const std::vector<float>& saved_o = forward.outputs[kO];
    if (saved_o.empty() || !result_.refused.empty()) return;
    const std::vector<double> o = by_token<float>(saved_o, lengths_, shape_.heads_q);
    result_.losses.push_back(model_.loss(o));
    if (!forward.reference.outputs.empty())
      result_.due.push_back(
          model_.loss(by_token<double>(numbers_due(forward.reference[kO]), lengths_, shape_.heads_q)));
    if (result_.failure) return say_loss();
    if (!std::isfinite(result_.losses.back()))
      return not_finite_though_right(false, forward_case_, inputs, "the loss");

    inputs.push_back({kDout, of_queries(model_.gradient_of_output(o))});
    inputs.push_back({kSavedO, saved_o});
    inputs.push_back({kSavedLse, forward.outputs[kLse]});
    lse_base_ = forward.plan.lse_base;
    const GivenCall backward =
        call(true, backward_case_, inputs, on_.backward, on_.of_backward, left_by_backward_);
    if (result_.failure || !result_.refused.empty()) return;
    const Activations d = {{},
                           by_token<float>(backward.outputs[kDq], lengths_, shape_.heads_q),
                           by_token<float>(backward.outputs[kDk], lengths_, shape_.heads_kv),
                           by_token<float>(backward.outputs[kDv], lengths_, shape_.heads_kv)};
    const Parameters gradients = model_.gradients(a, o, d);
    if (const std::string name = not_finite(gradients); !name.empty())
      return not_finite_though_right(true, backward_case_, inputs, "the gradient of " + name);
    model_.update(gradients, rate_);
  }

  // Calls a kernel and judges the call. From step 2 on, the workspace holds the bytes that the last step left there.
  GivenCall call(bool of_backward, const Case& c, std::vector<GivenInput>& inputs, Target& target,
                 const Calibration& calibration, std::vector<std::byte>& left) {
    if (of_backward) {
      const attn_plan plan = plan_alone(c, target).plan;
      inputs.back().elements = in_base(std::move(inputs.back().elements), lse_base_, plan.lse_base);
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
      fail(of_backward, c, inputs, v);
      result_.failure->message += name_fault(*result_.failure, target, calibration);
    }
    return called;
  }

  void fail(bool of_backward, const Case& c, const std::vector<GivenInput>& inputs, const Verdict& verdict) {
    result_.failure = StepFailure{.step = step_,
                                  .of_backward = of_backward,
                                  .message = describe(batch_) + ", step " + std::to_string(step_) + ": " +
                                             what_failed(of_backward, verdict),
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
  const ModelShape shape_;
  const double rate_;
  const TrainStep& on_;
  const std::vector<int64_t> lengths_;
  const Case forward_case_, backward_case_;
  Model model_;
  int step_ = 1;
  int32_t lse_base_ = 0;
  std::vector<std::byte> left_by_forward_, left_by_backward_;
  Trained result_;
};

}  // namespace

std::string choose_shape(const TrainStep& on, const std::vector<int64_t>& lengths, Setup* setup) {
  std::string why;
  for (Setup& candidate : setups()) {
    candidate.model.gates = setup->model.gates;
    for (const int64_t length : lengths) {
      const std::string refused = refused_by(Batch{length}, candidate, on);
      if (why.empty()) why = refused;
      if (!refused.empty()) continue;
      const uint64_t both = on.forward.info().features & on.backward.info().features;
      candidate.packed = (both & ATTN_FEATURE_RAGGED) != 0;
      *setup = candidate;
      return "";
    }
  }
  return why;
}

Trained train(const Batch& batch, const Setup& setup, uint64_t seed, const TrainStep& on) {
  Trained refused;
  refused.refused = refused_by(batch, setup, on);
  return refused.refused.empty() ? Training(batch, setup, seed, on).run() : refused;
}

}  // namespace attnfuzz::train
