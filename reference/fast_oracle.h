// A faster implementation of evaluate(): the one on a GPU (cuda/cuda_oracle.h).
//
//   std::string why;
//   if (auto reference = fast.evaluate(problem, tensors, plan, calibration, sample, &why)) ...
//   else evaluate(problem, tensors, plan, calibration, sample);   // `why` says what it does not
//   handle
//
// It is trusted less than evaluate(), so evaluate() judges every failure again. agreement.h says how far the
// two may differ.
#pragma once

#include <optional>
#include <string>

#include "reference/oracle.h"

namespace attnfuzz {

class FastOracle {
 public:
  virtual ~FastOracle() = default;
  // Like evaluate(). If it does not handle such problems, it returns nothing, and *why is a short reason that
  // does not name the case. Throws std::runtime_error if it cannot work at all, for instance if its device
  // fails.
  virtual std::optional<Reference> evaluate(const attn_problem& problem, const attn_tensors& host,
                                            const attn_plan& plan, const Calibration& calibration,
                                            RowSample sample, std::string* why) = 0;
  // The name of its device, for messages.
  virtual std::string device() const = 0;
};

}  // namespace attnfuzz
