// An oracle that says what evaluate() says, sooner: the one on a GPU (cuda/cuda_oracle.h).
//
//   std::string why;
//   if (auto reference = fast.evaluate(problem, tensors, plan, calibration, sample, &why)) ...
//   else evaluate(problem, tensors, plan, calibration, sample);   // `why`: not a problem for it
//
// It is believed less than evaluate(), which stays the judge of every failure; agreement.h says
// how far the two may lie apart.
#pragma once

#include <optional>
#include <string>

#include "reference/oracle.h"

namespace attnfuzz {

class FastOracle {
 public:
  virtual ~FastOracle() = default;
  // As evaluate(). Nothing, with a short reason that does not name the case, if it does not do such
  // problems. Throws std::runtime_error if it cannot work at all, as when its device fails.
  virtual std::optional<Reference> evaluate(const attn_problem& problem, const attn_tensors& host,
                                            const attn_plan& plan, const Calibration& calibration,
                                            RowSample sample, std::string* why) = 0;
  // What it runs on, for a person.
  virtual std::string device() const = 0;
};

}  // namespace attnfuzz
