// The calls of the steps of a batch. The oracle judges each on the inputs that it got, so an error in one call
// does not excuse another.
//
//   Calls calls(batch);
//   return calls.run(model, [&] { ... });         // each step: its calls, and the model's update
//   // in a step:
//   const Pass forward = {.number = 0, .name = "forward", .kernel = {&target, &calibration}};
//   const GivenCall made = calls.make(forward, c, {{kQ, q}, {kK, k}, {kV, v}});
//   if (!calls.go_on()) return calls.result;      // it failed, or was refused
//
// From the second step on, a call finds the workspace as the same call of the step before has left it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "properties/judge/given_call.h"
#include "properties/train_step/batch.h"
#include "properties/train_step/model.h"

namespace attnfuzz::train {

// A step that went wrong.
struct StepFailure {
  int step = 0;         // from 1
  size_t pass = 0;      // Pass::number of the call that failed
  std::string message;  // one line for people: where and what
  Verdict verdict;
  Case c;  // of the failing call; its fills are like the step's numbers, not equal to them
  std::vector<GivenInput> inputs;  // the step's numbers
};

// What the steps of a batch ended in.
struct Trained {
  std::string refused;  // why a kernel refused, or could not be judged; empty: neither
  std::optional<StepFailure> failure;
  std::vector<double> losses;  // of each step, by the O that the kernels gave
  std::vector<double> due;     // the losses by the oracle's O, for the inputs that each forward call got
  double worst = 0;            // the largest error/bound
  std::string note;            // a warning that all gates are equal (model.h); empty: they are not
};

struct StepKernel {
  Target* target = nullptr;
  const Calibration* calibration = nullptr;
};

// One of the calls that every step makes.
struct Pass {
  size_t number = 0;
  std::string name;  // "forward"
  StepKernel kernel;
};

class Calls {
 public:
  explicit Calls(const Batch& batch) : batch_(batch) {}

  // Runs the steps of a batch, until one fails or is refused, and notes gates that are all equal.
  Trained run(const Model& model, const std::function<void()>& step);
  // The present step, from 1.
  int step() const { return step_; }
  bool go_on() const { return !result.failure && result.refused.empty(); }

  GivenCall make(const Pass& pass, const Case& c, const std::vector<GivenInput>& inputs);
  // Fails the step, although the oracle allows every element: training cannot go on from such a number.
  void fail_non_finite(const Pass& pass, const Case& c, const std::vector<GivenInput>& inputs,
                       const std::string& what);

  // Adds the last loss to the failure's message if it is not finite.
  void say_loss();

  Trained result;

 private:
  void note_gates(const Model& model);
  // `changed`: the input that the kernel has written to.
  void fail(const Pass& pass, const Case& c, const std::vector<GivenInput>& inputs, const Verdict& verdict,
            std::optional<TensorId> changed = std::nullopt);

  const Batch batch_;
  int step_ = 0;
  std::map<size_t, std::vector<std::byte>> left_;  // the workspace that each pass has left
};

// The LSE saved by a forward call, converted to the base that `reader` expects in case `c`.
std::vector<float> lse_for(const GivenCall& forward, const Case& c, Target& reader);

// The expected numbers, with NaN wherever the oracle does not expect one number.
std::vector<double> numbers_due(const Expected& due);

}  // namespace attnfuzz::train
