// Rows behind the last packed entry do not change the result, nor do values of seq_q and seq_k above all
// lengths.
#include "properties/operations/forward/relations/storage/packed_tools.h"

namespace attnfuzz::operations {
extern const Operation selected;
}

namespace attnfuzz::relations {
namespace {

Case other_slack(const Case& base) {
  Case c = variant_of(base);
  for (auto* side : {&c.problem.packed_q, &c.problem.packed_k}) {
    if (!*side) continue;
    (*side)->numbers = (*side)->slack == 0 || !(*side)->numbers;
    (*side)->slack += 1 + static_cast<int64_t>(choice(base, 1) % 5);
  }
  fit_memory(c);
  return c;
}

Case longer(const Case& base) {
  Case c = variant_of(base);
  Problem& p = c.problem;
  keep_lists(p);
  c.remap.seq_q = p.seq_q;  // masks and biases stay
  c.remap.seq_k = p.seq_k;
  if (p.packed_q) p.seq_q += 1 + static_cast<int64_t>(choice(base, 2) % 70);
  if (p.packed_k) p.seq_k += 1 + static_cast<int64_t>(choice(base, 3) % 70);
  fit_memory(c);
  return c;
}

void check_packed_slack(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const auto holds = [&](const Case& variant, const char* name) {
    const Run* run = trial.run(variant, name);
    if (!run) return false;
    for (int64_t b = 0; b < base->c.problem.batch; ++b) {
      if (!entries_agree(trial, *base, b, *run, b, name)) return false;
    }
    return true;
  };
  if (holds(other_slack(base->c), "other rows behind the last entry"))
    holds(longer(base->c), "longest lengths above all lengths");
}

}  // namespace

extern const Property packed_slack = {
    .name = "packed_slack",
    .statement = "rows of no batch entry and a larger longest length change nothing",
    .adapt = pack,
    .check = check_packed_slack,
    .features = ATTN_FEATURE_RAGGED,
    .packed = true,
    .kv8 = true,
    .key_blocks = true,
    .also = &operations::selected};

}  // namespace attnfuzz::relations
