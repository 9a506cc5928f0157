// A reference that is 1 everywhere, for tests of pictures and descriptions of a result.
#pragma once

#include "properties/case/case.h"
#include "reference/oracle.h"

namespace attnfuzz {

// The reference expects 1 +- 1e-3 in every element of O.
inline Reference flat_reference(const Case& c) {
  Reference r;
  r.rows = RowSpace(c.problem).count();
  const auto elements = static_cast<size_t>(r.rows * c.problem.dim_v);
  r.outputs.push_back({.tensor = TensorId::kO,
                       .columns = c.problem.dim_v,
                       .value = std::vector<double>(elements, 1.0),
                       .bound = std::vector<double>(elements, 1e-3),
                       .rule = std::vector<uint8_t>(elements, 0),
                       .overflow = 65520});
  r.state.assign(static_cast<size_t>(r.rows), RowState::kBounded);
  r.sampled = r.rows;
  return r;
}

}  // namespace attnfuzz
