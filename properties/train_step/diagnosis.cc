#include "properties/train_step/diagnosis.h"

#include <algorithm>

#include "properties/case/places/packed.h"
#include "properties/judge/judge.h"

namespace attnfuzz::train {
namespace {

size_t longest(const Case& c) {
  const std::vector<int64_t>& lengths = c.problem.packed_q->lengths;
  return static_cast<size_t>(std::ranges::max_element(lengths) - lengths.begin());
}

// One sequence alone, not packed, of the longest length.
Case alone(Case c) {
  unpack(c);
  c.problem.batch = 1;
  c.problem.index_dtype = ATTN_INDEX_64;  // there are no borders
  return c;
}

std::vector<GivenInput> of_sequence(size_t n, const Case& c, std::vector<GivenInput> inputs) {
  for (GivenInput& input : inputs) {
    const size_t count = input.elements.size() / static_cast<size_t>(c.problem.batch);
    const auto first = input.elements.begin() + static_cast<std::ptrdiff_t>(n * count);
    input.elements = std::vector<float>(first, first + static_cast<std::ptrdiff_t>(count));
  }
  return inputs;
}

bool same_bits(const Case& c, const GivenCall& a, const GivenCall& b) {
  return std::ranges::none_of(operation_of(c.problem.features).outputs, [&](const Output& output) {
    return first_difference(a.outputs[output.tensor], b.outputs[output.tensor]).has_value();
  });
}

bool same_end(const GivenCall& a, const GivenCall& b) {
  return a.verdict.outcome == b.verdict.outcome && a.verdict.kind == b.verdict.kind;
}

bool passes(const GivenCall& call) { return call.verdict.outcome == Outcome::kPass; }

// The outcome of a call that is made several times; nothing if the calls end differently, or have other bits
// though the plan promises the same.
std::optional<GivenCall> agreed(const Case& c, std::span<const GivenInput> inputs, Target& target,
                                const Calibration& calibration, Before before) {
  const GivenCall first = judge_given(c, inputs, target, calibration, before);
  for (int n = 1; n < kAskedTimes; ++n) {
    const GivenCall again = judge_given(c, inputs, target, calibration, before);
    if (!same_end(first, again) || (first.plan.deterministic != 0 && !same_bits(c, first, again)))
      return std::nullopt;
  }
  return first;
}

}  // namespace

Diagnosis diagnose(const StepFailure& failure, Target& target, const Calibration& calibration) {
  const Case& c = failure.c;
  const Kind kind = failure.verdict.kind;
  Diagnosis d;
  if (!c.problem.packed_q || kind == Kind::kInputChanged || kind == Kind::kDirty) return d;
  const auto poison = agreed(c, failure.inputs, target, calibration, Before::kPoison);
  if (!poison) return d;
  const auto one =
      agreed(alone(c), of_sequence(longest(c), c, failure.inputs), target, calibration, Before::kPoison);
  d.right_alone = one && passes(*one) && !passes(*poison);
  const auto zeros = agreed(c, failure.inputs, target, calibration, Before::kZeros);
  if (!zeros || zeros->workspace.empty()) return d;
  d.right_on_zeros = passes(*zeros);
  d.reads_workspace =
      !same_end(*zeros, *poison) || (poison->plan.deterministic != 0 && !same_bits(c, *zeros, *poison));
  return d;
}

std::string words(const Diagnosis& d) {
  std::string text;
  if (d.right_alone) text += "; the longest sequence alone, not packed, is right";
  if (!d.reads_workspace) return text;
  text += "; the packed call depends on what its workspace held before";
  if (d.right_on_zeros) text += " (on zeros it is right)";
  if (d.suspects_borders())
    text += ": uninitialised cu_seqlens? A copy of cu_q or cu_k there is read before it is written";
  return text;
}

}  // namespace attnfuzz::train
