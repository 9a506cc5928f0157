#include "properties/train_step/name_fault.h"

#include <algorithm>

#include "properties/case/packed.h"
#include "properties/judge/judge.h"

namespace attnfuzz::train {
namespace {

// The name of a tensor in a step of training.
std::string name_in_step(TensorId t) {
  return t == TensorId::kSavedO ? "o" : t == TensorId::kSavedLse ? "lse" : name_of(t);
}

// The tensor that the message of a changed input is about; nullptr: none.
const TensorSpec* changed(const Verdict& verdict) {
  if (verdict.kind != Kind::kInputChanged) return nullptr;
  for (const TensorId t : kInputs) {
    const std::string words = std::string("the input ") + name_of(t) + " was written";
    if (verdict.message.starts_with(words)) return &spec_of(t);
  }
  return nullptr;
}

// The first sequence of a packed call alone, not packed.
Case alone(Case c) {
  unpack(c);
  c.problem.batch = 1;
  c.problem.index_dtype = ATTN_INDEX_64;  // there are no borders
  return c;
}

std::vector<GivenInput> of_first_sequence(const Case& c, std::vector<GivenInput> inputs) {
  for (GivenInput& input : inputs)
    input.elements.resize(input.elements.size() / static_cast<size_t>(c.problem.batch));
  return inputs;
}

}  // namespace

std::string what_failed(bool of_backward, const Verdict& verdict) {
  const std::string kernel = of_backward ? "backward" : "forward";
  if (const TensorSpec* spec = changed(verdict))
    return kernel + " changed the saved tensor " + name_in_step(spec->id) + ": " + verdict.message;
  return kernel + ": " + verdict.message;
}

std::string name_fault(const StepFailure& failure, Target& target, const Calibration& calibration) {
  const Case& c = failure.c;
  if (!c.problem.packed_q || failure.verdict.kind == Kind::kInputChanged) return "";
  const auto passes = [](const GivenCall& call) { return call.verdict.outcome == Outcome::kPass; };
  if (!passes(judge_given(alone(c), of_first_sequence(c, failure.inputs), target, calibration))) return "";
  const std::string only = "; the first sequence alone, not packed, is right";
  const GivenCall zeros = judge_given(c, failure.inputs, target, calibration, Before::kZeros);
  const GivenCall poison = judge_given(c, failure.inputs, target, calibration);
  const Verdict &on_zeros = zeros.verdict, &on_poison = poison.verdict;
  const bool other_bits =
      poison.plan.deterministic != 0 &&
      std::ranges::any_of(operation_of(c.problem.features).outputs, [&](const Output& output) {
        return first_difference(zeros.outputs[output.tensor], poison.outputs[output.tensor]).has_value();
      });
  const bool differ = on_zeros.outcome != on_poison.outcome || on_zeros.kind != on_poison.kind || other_bits;
  if (!differ || zeros.workspace.empty()) return only;
  return only + ", and the packed call depends on what its workspace held before" +
         (passes(zeros) ? " (on zeros it is right)" : "") +
         ": uninitialised cu_seqlens? A copy of cu_q or cu_k there is read before it is written";
}

}  // namespace attnfuzz::train
