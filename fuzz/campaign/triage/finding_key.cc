// The key that two findings share if they count as one.
#include "fuzz/campaign/triage/triage.h"

namespace attnfuzz {

Reproducer without_build(Reproducer r, const std::string& kernel) {
  r.kernel = kernel;
  r.c.build_kind = "plain";
  Problem& p = r.c.problem;
  if (p.dim_qk > p.dim_v) std::swap(p.dim_qk, p.dim_v);
  // Findings of one bug differ by chance in which input has the odd layout and in the sizes that make strides
  // matter. So all odd layouts become one.
  bool odd = false, odd_input = false;
  for (size_t t = 0; t < kTensorCount; ++t) {
    TensorLayout& layout = r.c.layout[t];
    if (layout == TensorLayout{}) continue;
    odd = true;
    const auto id = static_cast<TensorId>(t);
    const bool input = fill_of(id) != nullptr;
    odd_input |= input;
    layout = {};
    if (!input) layout.row_gap = 1;
  }
  if (r.c.once != StoredOnce{}) odd = odd_input = true;
  r.c.once = {};
  if (!odd) return r;
  if (odd_input) r.c.layout[static_cast<size_t>(TensorId::kV)].row_gap = 1;
  p.batch = p.heads_q = p.heads_kv = p.seq_q = p.seq_k = p.dim_qk = 1;
  return r;
}

}  // namespace attnfuzz
