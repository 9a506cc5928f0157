// What a kernel computes. A forward pass is the first; another one is a value of
// this kind beside it, and its properties name it (Property::operation).
//
//   const Operation& operation = operation_of(target.info());
//   Reference r = operation.evaluate(laid.problem(), laid.tensors(), plan, calibration, {});
#pragma once

#include <array>
#include <span>
#include <vector>

#include "properties/judge/target.h"
#include "reference/oracle.h"

namespace attnfuzz {

// What a call wrote: rows x columns of each output, as its TensorSpec has them.
class Outputs {
 public:
  std::vector<float>& operator[](TensorId t) { return values_[static_cast<size_t>(t)]; }
  const std::vector<float>& operator[](TensorId t) const { return values_[static_cast<size_t>(t)]; }

 private:
  std::array<std::vector<float>, kTensorCount> values_;
};

struct Operation {
  const char* name;
  // Of a call, inputs and outputs; the outputs are read back and judged.
  std::span<const TensorId> tensors;
  // What the outputs must be, from inputs in host memory; `exact` as evaluate() has it.
  Reference (*evaluate)(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                        const Calibration& calibration, RowSample sample, bool exact);
  // The kinds of problem that evaluate() knows: others are refused before anything runs.
  KnownFeatures known;
};

// O and LSE of Q, K and V.
extern const Operation kForward;

// The one that a kernel's descriptor names.
const Operation& operation_of(const KernelInfo& kernel);

}  // namespace attnfuzz
