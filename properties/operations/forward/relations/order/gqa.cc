// A KV head that several query heads share gives the same result as a copy of it for each query head.
#include <algorithm>

#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

constexpr int64_t kFew = 8;

bool adapt_gqa(Case& c, const KernelInfo&, std::string*) {
  Problem& p = c.problem;
  const int64_t group = p.heads_kv > 0 ? p.heads_q / p.heads_kv : 0;
  if (group > 1 && p.heads_kv > 1) return true;
  // With one KV head, or groups of one, even a wrong formula gives the right index of the KV head.
  p.heads_kv = std::max<int64_t>(p.heads_kv, 2);
  p.heads_q = p.heads_kv * (group > 1 ? group : 3);  // no power of two
  fit_memory(c);
  return true;
}

void check_gqa(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  Case other = variant_of(base->c);
  Problem& p = other.problem;
  other.remap.head_kv.repeat = p.heads_q / p.heads_kv;
  p.heads_kv = p.heads_q;
  fit_memory(other);
  const Run* run = trial.run(other, "K and V heads repeated");
  if (!run || !trial.all_within(*base, *run, "grouped heads against repeated heads")) return;
  // With few queries, kernels put the heads of a group into one tile. Then the rows of a tile belong to several
  // heads and queries, and each row must see the keys of its own query.
  if (!base->c.planted.empty()) return;
  Case few = variant_of(base->c);
  few.problem.seq_q = std::min<int64_t>(few.problem.seq_q, kFew);
  few.problem.causal = true;
  few.problem.window_left = 2;
  fit_memory(few);
  trial.run(few, "few queries in a causal window");
}

}  // namespace

extern const Property gqa = {
    .name = "gqa",
    .statement = "grouped-query attention equals multi-head attention with K and V heads repeated",
    .adapt = adapt_gqa,
    .check = check_gqa,
    .kv8 = true,
    .key_blocks = true};

}  // namespace attnfuzz::relations
