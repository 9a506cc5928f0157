// A compressed key that a query does not see affects neither its scores nor its list. Some keys change, to NaN
// if the kernel isolates NaN. The rows of all queries that do not see them must keep their bits.
#include <algorithm>
#include <limits>

#include "properties/case/selection.h"
#include "properties/case/shrink_toggles.h"
#include "properties/operations/nsa_score/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_score_future(Case& c, const KernelInfo&, std::string*) {
  drop_non_finite(c);
  c.once.k = {};
  return true;
}

// The compressed keys that change: one to three neighbours, at the front, at the end or anywhere.
KeyRange changed_compressed_keys(const Case& c) {
  const int64_t keys = c.problem.seq_k, any = static_cast<int64_t>(choice(c, 1) % static_cast<uint64_t>(keys));
  const int64_t starts[] = {0, keys - 1, any, any}, first = starts[choice(c, 2) % 4];
  return {first, std::min<int64_t>(first + 1 + static_cast<int64_t>(choice(c, 3) % 3), keys)};
}

Case with_other_keys(const Case& base, const KeyRange& keys, bool nan) {
  Case c = variant_of(base);
  const Problem& p = c.problem;
  const float value = nan ? std::numeric_limits<float>::quiet_NaN() : 1.5f;
  for (int64_t b = 0; b < std::min<int64_t>(p.batch, 16); ++b) {
    for (int64_t g = 0; g < std::min<int64_t>(p.heads_kv, 16); ++g) {
      for (int64_t j = keys.first; j < keys.last; ++j)
        c.planted.push_back({TensorId::kK, b, g, j, p.dim_qk - 1, bits_of(p.dtype, value)});
    }
  }
  tidy(c);  // of several values planted in one place, keeps the last
  return c;
}

void check_score_future(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base || base->c.problem.seq_k == 0 || base->reference.rows == 0) return;
  const KeyRange keys = changed_compressed_keys(base->c);
  constexpr const char* kWhat = "other values in compressed keys that the query does not see";
  const Run* run = trial.run(with_other_keys(base->c, keys, base->plan.isolates_masked_nan != 0), kWhat);
  if (!run) return;
  const Problem& p = base->c.problem;
  for (int64_t row = 0; row < base->reference.rows; ++row) {
    const Row at = lists_of(p).at(row);
    bool seen = false;
    for (int64_t j = keys.first; j < keys.last; ++j)
      seen = seen || sees(base->c, at.b, at.h * (p.heads_q / p.heads_kv), at.i, j);
    if (seen) continue;
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
    .operation = &operations::nsa_score};

}  // namespace attnfuzz::relations
