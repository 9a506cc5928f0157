// Judges one call of a kernel on inputs that no fill gives, because an earlier call, or arithmetic around it,
// has computed them.
//
// A case says the sizes, the layout and the surroundings, and `inputs` say the elements. The call is judged as
// any other: status, redzones, unchanged inputs, completeness, and each element against the oracle for these
// inputs.
//
//   const GivenCall call = judge_given(c, {{TensorId::kQ, q}, {TensorId::kK, k}, {TensorId::kV, v}}, target, calibration);
//   if (call.verdict.outcome == Outcome::kPass) use(call.outputs[TensorId::kO]);
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "properties/judge/execution.h"
#include "properties/judge/verdict.h"
#include "reference/model/calibration.h"

namespace attnfuzz {

// The elements of an input: dense, (batch entry, head, row, column), as the contract numbers them. Packed
// entries have seq_q or seq_k rows each; rows that an entry does not have are not read. Each must be a number
// of the tensor's format.
struct GivenInput {
  TensorId tensor;
  std::vector<float> elements;
  std::vector<int64_t> integers = {};  // instead, of indices
};

// The bytes of these elements, in the format of the tensor.
std::vector<std::byte> bytes_of(const Case& c, const GivenInput& input);

struct GivenCall {
  Verdict verdict;
  attn_plan plan = {};
  Outputs outputs;      // of the last call that returned; empty if none did
  Reference reference;  // what they should be; empty if the call did not return, or wrote where it must not
  std::vector<std::byte> workspace;  // as the call left it
  std::optional<TensorId> changed;  // the input that the kernel wrote to, if the verdict is Kind::kInputChanged
};

// A failure is blamed on one circumstance only if this many calls with it fail, and as many without it pass.
// The calls of a kernel whose results vary, as with atomics or a race, may differ by chance.
inline constexpr int kAskedTimes = 3;

// The content of the workspace when the kernel is called.
enum class Before : uint8_t {
  kPoison,  // NaN, as the case says
  kZeros,
  kLeft  // given bytes, if there are as many as the plan wants. The call is then made again on poison, and must
         // give the same bits if the plan says that it is deterministic. Outputs that are wrong on the given
         // bytes and right on poison are Kind::kDirty.
};

// `exact`: the reference has exact values, too (attnfuzz::evaluate()).
GivenCall judge_given(const Case& c, std::span<const GivenInput> inputs, Target& target,
                      const Calibration& calibration, Before before = Before::kPoison,
                      std::span<const std::byte> left = {}, bool exact = false);

// The call as an ordinary case that a file can hold: first with the fills that it has, then with the numbers
// themselves planted, if there are few enough. Integers stay as the case says.
std::vector<Case> ordinary_cases(const Case& c, std::span<const GivenInput> inputs);

}  // namespace attnfuzz
