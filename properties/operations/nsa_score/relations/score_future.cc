// A compressed key that a query does not see affects neither its scores nor its list. Some keys change, to NaN
// if the kernel isolates NaN. The rows of all queries that do not see them must keep their bits, among them the
// rows of other packed entries.
#include <algorithm>
#include <limits>

#include "properties/operations/forward/relations/storage/packed_tools.h"
#include "properties/operations/nsa_score/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_score_future(Case& c, const KernelInfo&, std::string*) {
  drop_non_finite(c);
  c.once.k = {};
  return true;
}

// The compressed keys of an entry that change: one to three neighbours, at the front, at the end or anywhere.
KeyRange changed_compressed_keys(const Case& c, int64_t keys) {
  const auto any = static_cast<int64_t>(choice(c, 1) % static_cast<uint64_t>(keys));
  const int64_t starts[] = {0, keys - 1, any, any}, first = starts[choice(c, 2) % 4];
  return {first, std::min<int64_t>(first + 1 + static_cast<int64_t>(choice(c, 3) % 3), keys)};
}

void check_score_future(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base || base->c.problem.seq_k == 0 || base->reference.rows == 0) return;
  const ChangedKeys keys = changed_keys(base->c, changed_compressed_keys);
  constexpr const char* kWhat = "other values in compressed keys that the query does not see";
  const bool nan = base->plan.isolates_masked_nan != 0;
  const float value = nan ? std::numeric_limits<float>::quiet_NaN() : 1.5f;
  const Run* run = trial.run(with_changed_keys(base->c, keys, value), kWhat);
  if (!run) return;
  const Problem& p = base->c.problem;
  for (int64_t row = 0; row < base->reference.rows; ++row) {
    if (base->reference.state[static_cast<size_t>(row)] == RowState::kAbsent) continue;
    const Row at = lists_of(p).at(row);
    if (sees_any(base->c, {at.b, at.h * (p.heads_q / p.heads_kv), at.i}, keys)) continue;
    const bool bits = trial.promise_bits(base->plan, run->plan);
    if (!same_choice(trial, *base, row, *run, row, bits, kWhat)) return;
  }
}

}  // namespace

extern const Property score_future = {
    .name = "score_future",
    .statement =
        "compressed keys that a query does not see change neither its scores nor its list, to the last bit",
    .adapt = adapt_score_future,
    .check = check_score_future,
    .operation = &operations::nsa_score,
    .packed = true};

}  // namespace attnfuzz::relations
