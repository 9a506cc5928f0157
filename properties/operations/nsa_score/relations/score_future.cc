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
  tidy(c);  // a later value replaces an earlier one in its place
  return c;
}

// The scores of a row must have equal bits if the plans promise them, else agree within both bounds. Scores of
// blocks that are no candidates may be anything.
bool same_scores(Trial& trial, const Run& a, const Run& b, int64_t row, std::string_view what) {
  if (!trial.promise_bits(a.plan, b.plan)) return trial.same_within(a, row, b, row, what);
  if (trial.done()) return false;
  const std::vector<float>&x = a[TensorId::kBlockScores], &y = b[TensorId::kBlockScores];
  if (x.empty() || y.empty()) return true;
  const Expected &due_a = a.reference[TensorId::kBlockScores], &due_b = b.reference[TensorId::kBlockScores];
  for (int64_t j = 0; j < due_a.columns; ++j) {
    const auto at = static_cast<size_t>(row * due_a.columns + j);
    if (due_a.rule[at] != 0 || due_b.rule[at] != 0) continue;
    if (!first_difference(std::span(&x[at], 1), std::span(&y[at], 1))) continue;
    const Where where = where_is(TensorId::kBlockScores, a.c.problem, a.plan, row, j);
    trial.fail(Kind::kRelation, std::string(what) + ": " + name_of(where) + " was " + digits(x[at]) + ", is " +
                                    digits(y[at]) + ", must be bit-identical");
    trial.verdict().where = where;
    return false;
  }
  return true;
}

void check_score_future(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base || base->c.problem.seq_k == 0 || base->reference.rows == 0) return;
  const KeyRange keys = changed_compressed_keys(base->c);
  constexpr const char* kWhat = "other values in compressed keys that the query does not see";
  const Run* run = trial.run(with_other_keys(base->c, keys, base->plan.isolates_masked_nan != 0), kWhat);
  if (!run) return;
  const Problem& p = base->c.problem;
  const bool same = same_work(base->plan, run->plan);
  for (int64_t row = 0; row < base->reference.rows; ++row) {
    const Row at = lists_of(p).at(row);
    bool seen = false;
    for (int64_t j = keys.first; j < keys.last; ++j)
      seen = seen || sees(base->c, at.b, at.h * (p.heads_q / p.heads_kv), at.i, j);
    if (seen) continue;
    if (!same_scores(trial, *base, *run, row, kWhat) || !is_admissible(trial, *base, row, *run, row, kWhat))
      return;
    if (!same || std::ranges::equal(list_of(*base, row), list_of(*run, row))) continue;
    const Where where = where_is(TensorId::kChosen, p, run->plan, row, 0);
    trial.fail(Kind::kRelation,
               std::string(kWhat) + ": the row of " + name_of(where) + " must be the same list");
    trial.verdict().where = where;
    return;
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
