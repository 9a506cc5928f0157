// A list is a set: another order gives the same result, up to the order of sums. So does the same list written
// key by key, with blocks of one key.
#include "properties/operations/selected/relations/tools.h"

namespace attnfuzz::relations {
namespace {

// The same lists in another order, with indices that name no block at the front or among the
// others.
Case shuffled(const Case& base) {
  Case c = variant_of(base);
  Selection& selection = c.problem.selection;
  selection.order = 2 + (selection.order + 1 + choice(base, 1) % 50) % 64;
  selection.leading = !selection.leading;
  return c;
}

// The same lists, key by key.
Case as_keys(const Case& base) {
  Case c = variant_of(base);
  c.problem.selection.tokens = true;
  c.layout[static_cast<size_t>(TensorId::kIndices)] = {};
  return c;
}

void check_selected_order(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  if (const Run* run = trial.run(shuffled(base->c), "lists in another order")) {
    if (!trial.all_within(*base, *run, "lists in another order")) return;
  } else {
    return;
  }
  constexpr int64_t kMostIndices = int64_t{1} << 20;
  const Case keys = as_keys(base->c);
  const Problem& p = keys.problem;
  const double all = static_cast<double>(p.batch) * static_cast<double>(p.heads_kv) *
                     static_cast<double>(p.seq_q) * static_cast<double>(p.listed()) *
                     static_cast<double>(p.selection.block);
  if (base->c.problem.selection.tokens || all > static_cast<double>(kMostIndices) || illegal(keys)) return;
  if (const Run* run = trial.run_if_taken(keys, "lists of keys"))
    trial.all_within(*base, *run, "lists of blocks as lists of their keys");
}

}  // namespace

extern const Property selected_order = {
    .name = "selected_order",
    .statement = "the order of a list has no meaning, and a block is the same as its keys",
    .adapt = any_case,
    .check = check_selected_order,
    .operation = &operations::selected,
    .also = &operations::selected_backward};

}  // namespace attnfuzz::relations
