// Compares random legal kernels with the bound. A case is a shape, data, a plan that
// declares anything, an arithmetic that its calibration describes, and a kernel that
// follows the declaration.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "reference/warnings/error_statistics.h"
#include "tests/reference/legal_kernels/legal_kernel.h"
#include "tests/reference/support.h"

namespace attnfuzz {

struct LegalTally {
  int64_t cases = 0, rows = 0, uninformative = 0, unconstrained = 0;
  double worst_o = 0, worst_lse = 0;
  int64_t unlikely = 0;
  ErrorStatistics most;  // the largest value of each statistic
  // Counts of rows for each choice of a plan that decides whether a row can be judged.
  struct Rows {
    int64_t all = 0, bounded = 0;
  };
  std::map<std::string, Rows> of_choice;
  std::string violation;  // describes the first violation, at which the run ends
};
// Draws an arithmetic into a plan and a kernel's choices; returns the calibration that describes it.
Calibration arithmetic(Random* random, attn_plan* plan, Choices* how);

// The problem of such a case.
Shape random_shape(Random* random);

// Cases number first, first + 1, ...: the same on every machine.
LegalTally run_legal_cases(uint64_t first, int64_t count);

}  // namespace attnfuzz
