#include "properties/train_step/train_step.h"

#include <cmath>

#include "base/random.h"

namespace attnfuzz::train {
namespace {

using enum TensorId;

class Training {
 public:
  Training(const Batch& batch, const Setup& setup, const TrainStep& on)
      : batch_(batch),
        setup_(setup),
        forward_{kForwardPass, "forward", {&on.forward, &on.of_forward}},
        backward_{kBackwardPass, "backward", {&on.backward, &on.of_backward}},
        calls_(batch),
        model_(setup.model.with(lengths_of(batch, 1)),
               hash64(batch.seed ^ static_cast<uint64_t>(2 * batch.length + batch.packed))) {}

  Trained run() {
    return calls_.run(model_, [this] { step(); });
  }

 private:
  std::vector<float> of_queries(std::span<const double> x) const {
    return by_sequence(x, lengths_, setup_.model.heads_q);
  }
  std::vector<float> of_keys(std::span<const double> x) const {
    return by_sequence(x, lengths_, setup_.model.heads_kv);
  }

  Case case_of_pass(uint64_t operation, const Pass& pass) const {
    return case_of(batch_, calls_.step(), setup_, operation_of(operation), pass.kernel.target->info());
  }

  double loss_of(const std::vector<double>& o) const { return model_.loss(model_.sum({o})); }

  void step() {
    lengths_ = lengths_of(batch_, calls_.step());
    const Case forward_case = case_of_pass(0, forward_),
               backward_case = case_of_pass(ATTN_FEATURE_BACKWARD, backward_);
    const Activations a = model_.project();
    std::vector<GivenInput> inputs = {{kQ, of_queries(a.q)}, {kK, of_keys(a.k)}, {kV, of_keys(a.v)}};
    const GivenCall forward = calls_.make(forward_, forward_case, inputs);
    const std::vector<float>& saved_o = forward.outputs[kO];
    Trained& result = calls_.result;
    if (saved_o.empty() || !result.refused.empty()) return;
    const std::vector<double> o = by_token<float>(saved_o, lengths_, setup_.model.heads_q), y = model_.sum({o});
    result.losses.push_back(model_.loss(y));
    if (!forward.reference.outputs.empty())
      result.due.push_back(
          loss_of(by_token<double>(numbers_due(forward.reference[kO]), lengths_, setup_.model.heads_q)));
    if (result.failure) return calls_.say_loss();
    if (!std::isfinite(result.losses.back()))
      return calls_.fail_non_finite(forward_, forward_case, inputs, "the loss");

    inputs.push_back({kDout, of_queries(model_.gradient_of_branch(0, y))});
    inputs.push_back({kSavedO, saved_o});
    inputs.push_back({kSavedLse, lse_for(forward, backward_case, *backward_.kernel.target)});
    const GivenCall backward = calls_.make(backward_, backward_case, inputs);
    if (!calls_.go_on()) return;
    const Activations d = {{},
                           by_token<float>(backward.outputs[kDq], lengths_, setup_.model.heads_q),
                           by_token<float>(backward.outputs[kDk], lengths_, setup_.model.heads_kv),
                           by_token<float>(backward.outputs[kDv], lengths_, setup_.model.heads_kv)};
    const Parameters gradients = model_.gradients(a, y, {o}, d);
    if (const std::string name = not_finite(gradients); !name.empty())
      return calls_.fail_non_finite(backward_, backward_case, inputs, "the gradient of " + name);
    model_.update(gradients, setup_.rate);
  }

  const Batch batch_;
  const Setup setup_;
  const Pass forward_, backward_;
  Calls calls_;
  Model model_;
  std::vector<int64_t> lengths_;  // of the step
};

}  // namespace

Trained train(const Batch& batch, const Setup& setup, const TrainStep& on) {
  Trained refused;
  refused.refused = refused_by(batch, setup, on);
  return refused.refused.empty() ? Training(batch, setup, on).run() : refused;
}

}  // namespace attnfuzz::train
