// Random legal kernels against the bound: each case a shape, data, a plan that
// declares anything, an arithmetic that its calibration describes, and a kernel that
// does as declared.
#pragma once

#include <cstdint>
#include <string>

namespace attnfuzz {

struct LegalTally {
  int64_t cases = 0, rows = 0, uninformative = 0, unconstrained = 0;
  double worst_o = 0, worst_lse = 0;
  std::string violation;  // what the first one was; the run ends there
};
// Cases number first, first + 1, ...: the same on every machine.
LegalTally run_legal_cases(uint64_t first, int64_t count);

}  // namespace attnfuzz
