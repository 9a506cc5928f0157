// Tools for relations of Split-K's stages: partial results in the workspace.
//
// A kernel says where its partials are (attn_partials). These functions read them, overwrite them, and make the
// partials that the oracle expects, so that each stage can be checked without the other.
#pragma once

#include <vector>

#include "properties/judge/trial.h"
#include "reference/partials.h"

namespace attnfuzz::relations {

// Dense, as reference/partials.h expects: o is (split, row, dim_v), lse (split, row).
struct Partials {
  int64_t splits = 0, rows = 0, dim_v = 0;
  std::vector<float> o, lse;
  float* o_at(int64_t split, int64_t row) { return &o[(split * rows + row) * dim_v]; }
  float& lse_at(int64_t split, int64_t row) { return lse[split * rows + row]; }
};

// Asks the kernel where it keeps its partials. If it does not say, or names places outside its workspace, the
// trial fails and nothing is returned.
std::optional<attn_partials> partials_of(Trial& trial, const Execution& prepared);

Partials read_partials(const Execution& prepared, const attn_partials& where);
void write_partials(Execution& prepared, const attn_partials& where, const Partials& partials);

// The oracle's partials, rounded to fp32. Elements that the oracle leaves open are 0.
Partials oracle_partials(const Execution& prepared, const Calibration& calibration, int64_t splits);

// Runs the reduction on `partials`, and judges the result by bound_reduce(). If anything is wrong, ends the
// trial and returns false.
struct Reduced {
  Reference reference;
  Outputs outputs;
};
bool reduce_partials(Trial& trial, Execution& prepared, const attn_partials& where, const Partials& partials,
                     std::string_view label, Reduced* reduced);

// adapt() of these relations: it accepts kernels that have stages.
bool staged_case(Case& c, const KernelInfo& kernel, std::string* why);

}  // namespace attnfuzz::relations
