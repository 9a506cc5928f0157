// What an oracle says of a call: its outputs with their bounds, and what it can say of each row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "reference/call/expected.h"
#include "reference/call/row_space.h"

namespace attnfuzz {

struct Reference {
  int64_t rows = 0;  // of RowSpace; what is said of rows below speaks of queries
  std::vector<Expected> outputs;
  std::vector<RowState> state;
  int64_t sampled = 0;
  int64_t dead = 0;
  int64_t uninformative = 0;
  int64_t unconstrained = 0;             // rows; columns of their own count as a row each
  std::vector<std::string> assumptions;  // what the plan left open, see ErrorModel
  // Of each row's O and LSE: which part of what is charged key by key is likely to be left where each key's
  // error falls to either side, sqrt(sum c_j^2) / sum c_j. No bound: what advice.h goes by. Empty: not known.
  std::vector<float> o_scatter, lse_scatter;

  // Throws std::out_of_range if the operation has no such output.
  Expected& operator[](TensorId tensor);
  const Expected& operator[](TensorId tensor) const;
};

}  // namespace attnfuzz
