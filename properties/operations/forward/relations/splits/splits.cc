// The number of splits must not change the result: one split, a few, and more than there are tiles must agree
// with the number that the case asked for.
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_splits(Case&, const KernelInfo& kernel, std::string* why) {
  if (!kernel.has_stages) *why = "this kernel does not split the keys";
  return kernel.has_stages;
}

void check_splits(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const Problem& p = base->c.problem;
  const int64_t tiles = (p.seq_k + base->plan.tile_k - 1) / base->plan.tile_k;
  const int64_t few = 2 + static_cast<int64_t>(choice(base->c, 1) % 6);
  for (const int64_t splits : {int64_t{1}, few, tiles + 1}) {
    if (splits == base->plan.num_splits && splits == p.num_splits) continue;
    Case other = variant_of(base->c);
    other.problem.num_splits = splits;
    const std::string label = std::to_string(splits) + " splits";
    const Run* run = trial.run(other, label);
    if (!run || !all_agree(trial, *base, *run, label + " against " + std::to_string(base->plan.num_splits)))
      return;
  }
}

}  // namespace

extern const Property splits = {.name = "splits",
                                .statement = "any number of splits gives the same result within both bounds",
                                .adapt = adapt_splits,
                                .check = check_splits,
                                .needs_stages = true,
                                .packed = true,
                                .kv8 = true,
                                .key_blocks = true};

}  // namespace attnfuzz::relations
