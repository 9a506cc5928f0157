// The same call again: on a clean workspace, on one the call before has left
// dirty, and on the other stream. State that outlives a call, or a workspace that
// is trusted to hold zeros, shows only here.
#include "properties/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt(Case& c, const KernelInfo&, std::string*) {
  if (has_many_heads(c.problem)) {
    c.calls = {Call{}};  // a second each, on an executor
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

// Trial::run() compares every call with the first, bit by bit where the plan says deterministic.
void check(Trial& trial) { trial.run(trial.base()); }

}  // namespace

extern const Property repeat = {
    "repeat", "a call repeated on a clean or dirty workspace, on either stream, gives the same bits", adapt,
    check};

}  // namespace attnfuzz::relations
