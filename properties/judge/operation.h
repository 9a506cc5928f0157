// What a kernel computes. The forward pass is the first operation; another one is a further value of this
// type, and its properties name it (Property::operation).
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

// The outputs of a call: rows x columns of each, as its TensorSpec says.
class Outputs {
 public:
  std::vector<float>& operator[](TensorId t) { return values_[static_cast<size_t>(t)]; }
  const std::vector<float>& operator[](TensorId t) const { return values_[static_cast<size_t>(t)]; }

 private:
  std::array<std::vector<float>, kTensorCount> values_;
};

struct Operation {
  const char* name;
  // Inputs and outputs of a call. The outputs are read back and judged.
  std::span<const TensorId> tensors;
  // What the outputs must be, from inputs in host memory. `exact`: see evaluate() of reference/oracle.h.
  Reference (*evaluate)(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                        const Calibration& calibration, RowSample sample, bool exact);
  // The kinds of problem that evaluate() knows. Others are refused before anything runs.
  KnownFeatures known;
};

// Computes O and LSE from Q, K and V.
extern const Operation kForward;

// The operation that a kernel's descriptor names.
const Operation& operation_of(const KernelInfo& kernel);

}  // namespace attnfuzz
