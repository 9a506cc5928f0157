// A list is a set: another order gives the same result, up to the order of sums. So does the same list with -1
// appended, and the same list written key by key, with blocks of one key.
#include <optional>

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

// The same lists, each with -1 appended; nothing if longer lists would name more blocks.
std::optional<Case> padded(const Case& base) {
  Case c = variant_of(base);
  Selection& selection = c.problem.selection;
  const bool repeats = selection.kind == SelectionKind::kRepeated || selection.kind == SelectionKind::kAnywhere;
  // Before it goes on to the others, kFirstOwn names the first block and the two most recent.
  const int64_t twice = selection.kind == SelectionKind::kFirstOwn ? 3 : 0;
  if (repeats || c.problem.listed() < c.problem.blocks() + twice) return std::nullopt;
  selection.select = c.problem.listed() + 1 + static_cast<int64_t>(choice(base, 2) % 40);
  c.layout[static_cast<size_t>(TensorId::kIndices)] = {};
  if (illegal(c)) return std::nullopt;
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
  if (const auto longer = padded(base->c)) {
    constexpr const char* kWhat = "lists with -1 appended";
    const Run* run = trial.run_if_taken(*longer, kWhat);
    if (run ? !trial.all_within(*base, *run, kWhat) : trial.done()) return;
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
    .statement =
        "a list is a set: neither its order nor a -1 has a meaning, and a block is the same as its keys",
    .adapt = any_case,
    .check = check_selected_order,
    .operation = &operations::selected,
    .packed = true,
    .also = &operations::selected_backward};

}  // namespace attnfuzz::relations
