// The order of the pairs of a copy of pages does not matter: no page that a pair reads is written by another.
#include <algorithm>

#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::operations {
extern const Operation copy_pages;
}

namespace attnfuzz::relations {
namespace {

void check_copies_reversed(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base || base->c.copies.size() < 2) return;
  Case other = variant_of(base->c);
  std::ranges::reverse(other.copies);
  if (const Run* run = trial.run(other, "pairs in reverse")) trial.all_bits(*base, *run, "pairs in reverse");
}

}  // namespace

extern const Property copies_reversed = {
    .name = "copies_reversed",
    .statement = "the order of the pairs of a copy of pages does not matter",
    .adapt = any_case,
    .check = check_copies_reversed,
    .compares = false,
    .operation = &operations::copy_pages,
    .packed = true};

}  // namespace attnfuzz::relations
