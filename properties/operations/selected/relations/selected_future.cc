// A key that a query does not see does not affect its result: neither a key behind its diagonal in a listed
// block, nor a key of a block that its list does not name, nor a key of another packed entry. Some keys and
// values change, to NaN if the kernel isolates NaN. The results of all queries that do not see them must keep
// their bits.
#include <algorithm>
#include <limits>

#include "properties/operations/forward/relations/storage/packed_tools.h"
#include "properties/operations/selected/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_selected_future(Case& c, const KernelInfo&, std::string*) {
  drop_non_finite(c);  // if a kernel does not isolate hidden values, infinity times 0 is NaN
  c.once.k = c.once.v = {};
  return true;
}

// The keys of an entry that change: one to three consecutive keys. They begin with the first or the last of all
// keys, with the key before a block's first, or anywhere.
KeyRange changed_listed_keys(const Case& c, int64_t keys) {
  const auto any = static_cast<int64_t>(choice(c, 1) % static_cast<uint64_t>(keys));
  const int64_t block = c.problem.selection.block,
                starts[] = {0, keys - 1, std::max<int64_t>(any / block * block - 1, 0), any};
  const int64_t first = starts[choice(c, 2) % 4];
  return {first, std::min<int64_t>(first + 1 + static_cast<int64_t>(choice(c, 3) % 3), keys)};
}

void check_selected_future(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base || base->c.problem.seq_k == 0 || base->reference.rows == 0) return;
  const ChangedKeys keys = changed_keys(base->c, changed_listed_keys);
  constexpr const char* kWhat = "other values in keys that the query does not see";
  const bool nan = base->plan.isolates_masked_nan != 0;
  const float value = nan ? std::numeric_limits<float>::quiet_NaN() : 1.5f;
  const Run* run = trial.run(with_changed_keys(base->c, keys, value), kWhat);
  if (!run) return;
  for (int64_t row = 0; row < base->reference.rows; ++row) {
    if (base->reference.state[static_cast<size_t>(row)] == RowState::kAbsent) continue;
    if (sees_any(base->c, RowSpace(base->c.problem).at(row), keys)) continue;
    if (!agree(trial, *base, row, *run, row, kWhat)) return;
  }
}

}  // namespace

extern const Property selected_future = {
    .name = "selected_future",
    .statement = "keys that a query does not see do not matter to it, to the last bit",
    .adapt = adapt_selected_future,
    .check = check_selected_future,
    .operation = &operations::selected,
    .packed = true,
    .also = &operations::selected_backward};

}  // namespace attnfuzz::relations
