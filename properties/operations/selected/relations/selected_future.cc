// A key that a query does not see does not affect its result: neither a key behind its diagonal in a listed
// block, nor a key of a block that its list does not name. Some keys and values change, to NaN if the kernel
// isolates NaN. The results of all queries that do not see them must keep their bits.
#include <algorithm>
#include <limits>

#include "properties/operations/selected/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_selected_future(Case& c, const KernelInfo&, std::string*) {
  drop_non_finite(c);  // if a kernel does not isolate hidden values, infinity times 0 is NaN
  c.once.k = c.once.v = {};
  return true;
}

// The keys that change: one to three consecutive keys. They begin with the first or the last of all keys, with
// the key before a block's first, or anywhere.
KeyRange changed_keys(const Case& c) {
  const Problem& p = c.problem;
  const auto any = static_cast<int64_t>(choice(c, 1) % static_cast<uint64_t>(p.seq_k));
  const int64_t block = p.selection.block,
                starts[] = {0, p.seq_k - 1, std::max<int64_t>(any / block * block - 1, 0), any};
  const int64_t first = starts[choice(c, 2) % 4];
  return {first, std::min<int64_t>(first + 1 + static_cast<int64_t>(choice(c, 3) % 3), p.seq_k)};
}

Case with_others(const Case& base, const KeyRange& keys, bool nan) {
  Case c = variant_of(base);
  const Problem& p = c.problem;
  const float value = nan ? std::numeric_limits<float>::quiet_NaN() : 1.5f;
  for (int64_t b = 0; b < std::min<int64_t>(p.batch, 16); ++b) {
    for (int64_t g = 0; g < std::min<int64_t>(p.heads_kv, 16); ++g) {
      for (int64_t j = keys.first; j < keys.last; ++j) {
        c.planted.push_back({TensorId::kK, b, g, j, p.dim_qk - 1, bits_of(p.dtype, value)});
        c.planted.push_back({TensorId::kV, b, g, j, 0, bits_of(p.dtype, value)});
      }
    }
  }
  tidy(c);  // of several values planted in one place, keeps the last
  return c;
}

bool sees_any(const Case& c, const Row& at, const KeyRange& keys) {
  for (int64_t j = keys.first; j < keys.last; ++j) {
    if (sees(c, at.b, at.h, at.i, j)) return true;
  }
  return false;
}

void check_selected_future(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base || base->c.problem.seq_k == 0 || base->reference.rows == 0) return;
  const KeyRange keys = changed_keys(base->c);
  constexpr const char* kWhat = "other values in keys that the query does not see";
  const Run* run = trial.run(with_others(base->c, keys, base->plan.isolates_masked_nan != 0), kWhat);
  if (!run) return;
  for (int64_t row = 0; row < base->reference.rows; ++row) {
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
    .also = &operations::selected_backward};

}  // namespace attnfuzz::relations
