// A result depends neither on the numbers of pages nor on memory that holds no key. One variant has its pages
// in another order, more pages, and other content in all slots without a key. Another variant swaps the order
// of slots and heads within a page (NHD and HND).
#include <algorithm>
#include <utility>

#include "properties/case/places/geometry.h"
#include "properties/operations/forward/relations/storage/packed_tools.h"

namespace attnfuzz::relations {
namespace {

Case renumbered(const Case& base) {
  Case c = variant_of(base);
  Paging& paging = *c.problem.paging;
  paging.order += 1 + choice(base, 1) % 1000;
  paging.spare += 1 + static_cast<int64_t>(choice(base, 2) % 3);
  paging.beyond += 1 + static_cast<int64_t>(choice(base, 3) % 3);
  paging.junk = static_cast<PageJunk>(
      (static_cast<uint64_t>(paging.junk) + 1 + choice(base, 4) % (kPageJunks - 1)) % kPageJunks);
  paging.numbers = !paging.numbers;
  fit_memory(c);
  return c;
}

Case by_other_dimension(const Case& base) {
  Case c = variant_of(base);
  for (const TensorId t : {TensorId::kK, TensorId::kV}) {
    if (!is_present(c, t)) continue;
    auto& order = c.layout[static_cast<size_t>(t)].order;
    std::swap(*std::ranges::find(order, uint8_t{1}), *std::ranges::find(order, uint8_t{2}));
  }
  fit_memory(c);
  return c;
}

void check_paged_renumbered(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base || base->c.problem.heads_q == 0) return;
  const auto holds = [&](const Case& variant, const char* name) {
    const Run* run = trial.run(trial.inside(variant), name);
    return run && all_entries_agree(trial, *base, *run, name);
  };
  if (holds(renumbered(base->c), "pages in another order, and other junk"))
    holds(by_other_dimension(base->c), "slots and heads in the other order");
}

}  // namespace

extern const Property paged_renumbered = {
    .name = "paged_renumbered",
    .statement = "the order of pages, of heads and slots in them, and memory without a key change nothing",
    .adapt = put_in_pages,
    .check = check_paged_renumbered,
    .features = ATTN_FEATURE_PAGED,
    .packed = true,
    .kv8 = true,
    .key_blocks = true};

}  // namespace attnfuzz::relations
