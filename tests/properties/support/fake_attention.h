// The kernel behind FakeTarget: attention on the host, in fp32, key by key.
#pragma once

#include "tests/properties/support/fake_target.h"

namespace attnfuzz {

// Writes each split's normalised O and LSE into the workspace.
void fake_partial(Flaw flaw, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan);
// Merges these into O and LSE.
void fake_reduce(Flaw flaw, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan);

// True if the kernel divides P by its sum and rounds it then.
inline bool fake_rounds_p(Flaw flaw) {
  return flaw == Flaw::kTextbook || flaw == Flaw::kTextbookOpen || flaw == Flaw::kFlushesP;
}

// Returns where the LSE (split, row) begins in the workspace; O (split, row, dim_v) comes first.
inline uint64_t fake_lse_offset(const attn_problem& p, int64_t splits) {
  return 4ull * static_cast<uint64_t>(splits * p.batch * p.heads_q * p.seq_q * p.dim_v);
}

}  // namespace attnfuzz
