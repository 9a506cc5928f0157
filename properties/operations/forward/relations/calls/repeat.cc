// Repeats the same call: on a clean workspace, on the workspace that the previous call left, and on the other
// stream. Only this shows state that outlives a call, or a workspace that is assumed to hold zeros. Then a call
// has other values and lengths at the same addresses, and the workspace as it was left. A kernel that keeps
// partials, lengths or plans by address or by shape then gives the old results.
#include "properties/case/features/shrink_toggles.h"
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_repeat(Case& c, const KernelInfo&, std::string*) {
  if (has_many_heads(c.problem)) {
    c.calls = {Call{}};  // on an executor each call takes a second
    return true;
  }
  bool dirty = false, clean = false, other = false;
  for (size_t n = 1; n < c.calls.size(); ++n) {
    dirty |= c.calls[n].dirty_workspace;
    clean |= !c.calls[n].dirty_workspace;
    other |= c.calls[n].stream != c.calls[0].stream;
  }
  if (!dirty || !clean || !other) {
    c.calls = {Call{}, Call{.dirty_workspace = true, .stream = 0}, Call{.dirty_workspace = false, .stream = 1},
               Call{.dirty_workspace = true, .stream = 1}};
  }
  return true;
}

// Other values of the same shape at the same addresses.
Case other_values(Case c) {
  c.calls = {Call{.dirty_workspace = true}};
  change_contents(c);
  if (!c.problem.paging && c.problem.key_lengths) {
    for (int64_t& length : *c.problem.key_lengths) length += length > 0 ? -1 : 1;
  }
  tidy(c);
  return c;
}

// Trial::run() compares every call with the first, bit by bit if the plan says deterministic.
void check_repeat(Trial& trial) {
  if (!trial.run(trial.base()) || has_many_heads(trial.base().problem)) return;
  trial.run_in_place(other_values(trial.base()),
                     "other values in the same place, the workspace as it was left");
}

}  // namespace

extern const Property repeat = {
    .name = "repeat",
    .statement =
        "a call repeated on a clean or dirty workspace, on either stream, gives the same bits, and a call with "
        "other values in the same place gives the result of those values",
    .adapt = adapt_repeat,
    .check = check_repeat,
    .compares = false,
    .operation = nullptr,
    .packed = true,
    .kv8 = true,
    .key_blocks = true};

}  // namespace attnfuzz::relations
