// Heads are independent: permuting KV heads, each together with the query heads of its group, permutes the
// results.
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_permute_heads(Case& c, const KernelInfo&, std::string*) {
  Problem& p = c.problem;
  if (p.heads_q == 1) p.heads_q = 2;
  fit_memory(c);
  return true;
}

void check_permute_heads(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const Problem& p = base->c.problem;
  Case other = variant_of(base->c);
  other.remap.head_q = Axis{.multiply = -1, .add = p.heads_q - 1, .modulus = p.heads_q};
  other.remap.head_kv = Axis{.multiply = -1, .add = p.heads_kv - 1, .modulus = p.heads_kv};
  const Run* run = trial.run(other, "heads reversed");
  if (!run) return;
  for (int64_t row = 0; row < base->reference.rows; ++row) {
    const Row at = RowSpace(p).at(row);
    const int64_t there = RowSpace(p).of(at.b, p.heads_q - 1 - at.h, at.i);
    if (!agree(trial, *base, row, *run, there, "heads reversed")) return;
  }
}

}  // namespace

extern const Property permute_heads = {
    .name = "permute_heads",
    .statement = "permuting heads permutes the results and changes nothing else",
    .adapt = adapt_permute_heads,
    .check = check_permute_heads,
    .packed = true,
    .kv8 = true,
    .key_blocks = true};

}  // namespace attnfuzz::relations
