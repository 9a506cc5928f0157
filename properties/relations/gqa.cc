// Grouped queries: a key head shared by several query heads does what copies of
// it, one a query head, would do.
#include "properties/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt(Case& c, const KernelInfo&, std::string*) {
  Problem& p = c.problem;
  if (p.heads_q > p.heads_kv) return true;
  p.heads_q = 2 * p.heads_kv;
  fit(c);
  return true;
}

void check(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  Case other = variant_of(base->c);
  Problem& p = other.problem;
  other.remap.head_kv.repeat = p.heads_q / p.heads_kv;
  p.heads_kv = p.heads_q;
  fit(other);
  if (const Run* run = trial.run(other, "K and V heads repeated")) {
    trial.all_within(*base, *run, "grouped heads against repeated heads");
  }
}

}  // namespace

extern const Property gqa = {
    "gqa", "grouped-query attention equals multi-head attention with K and V heads repeated", adapt, check};

}  // namespace attnfuzz::relations
