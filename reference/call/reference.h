// An oracle's answer for a call: the outputs with their bounds, and the state of each row.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "reference/call/expected.h"
#include "reference/call/row_space.h"
#include "reference/model/assumption.h"

namespace attnfuzz {

struct Reference {
  int64_t rows = 0;               // the rows of RowSpace, or for nsa_score the lists; the numbers below count these
  std::vector<Expected> outputs;  // the main one first
  std::vector<RowState> state;
  int64_t sampled = 0;
  int64_t dead = 0;
  int64_t uninformative = 0;
  int64_t unconstrained = 0;            // rows; a row with an unconstrained column counts, too
  int64_t always_first = 0, always_last = 0;  // of nsa_score: how many first and last candidates are always chosen
  std::vector<int64_t> candidates;      // of nsa_score: how many each row chooses from
  std::vector<Assumption> assumptions;  // what the plan left open; see ErrorModel
  // For each row's O and LSE: the share of the per-key error charges that is likely to remain if each key's
  // error has a random sign, sqrt(sum c_j^2) / sum c_j. It is no bound; warnings/error_statistics.h
  // uses it. Empty: not known.
  std::vector<float> o_scatter, lse_scatter;

  Expected& main() { return outputs.front(); }
  const Expected& main() const { return outputs.front(); }
  // Throws std::out_of_range if the operation has no such output.
  Expected& operator[](TensorId tensor);
  const Expected& operator[](TensorId tensor) const;
};

}  // namespace attnfuzz
