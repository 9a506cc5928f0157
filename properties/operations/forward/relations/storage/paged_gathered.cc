// Keys in pages give the same result as the same keys in a dense tensor. This shows a page of a wrong entry, a
// slot of a wrong page, or a length that is too short, even if the numbers look plausible.
#include "properties/case/features/shrink_toggles.h"
#include "properties/operations/forward/relations/storage/packed_tools.h"

namespace attnfuzz::relations {
namespace {

Case gathered(const Case& base) {
  Case c = variant_of(base);
  c.problem.paging.reset();
  for (const TensorId t : {TensorId::kK, TensorId::kV, TensorId::kBlockTable})
    c.layout[static_cast<size_t>(t)] = {};
  tidy(c);
  fit_memory(c);
  return c;
}

void check_paged_gathered(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base || base->c.problem.heads_q == 0) return;
  constexpr const char* kName = "the keys of the pages in a dense tensor";
  if (const Run* run = trial.run(gathered(base->c), kName)) all_entries_agree(trial, *base, *run, kName);
}

}  // namespace

extern const Property paged_gathered = {.name = "paged_gathered",
                                        .statement = "keys in pages give what they give in a dense tensor",
                                        .adapt = put_in_pages,
                                        .check = check_paged_gathered,
                                        .features = ATTN_FEATURE_PAGED,
                                        .packed = true,
                                        .kv8 = true,
                                        .key_blocks = true};

}  // namespace attnfuzz::relations
