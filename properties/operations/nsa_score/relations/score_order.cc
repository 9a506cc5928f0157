// If the kernel writes the scores, it must choose by them: no block left out has a higher written score than a
// chosen one that is not forced. The relation compares scores and lists of one kernel, so it needs no bound.
#include <algorithm>
#include <limits>

#include "properties/operations/nsa_score/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_score_order(Case& c, const KernelInfo& kernel, std::string* why) {
  if (kernel.domain && kernel.domain->lse == 1) {
    *why = "the kernel writes no scores";
    return false;
  }
  c.want_lse = true;
  return true;
}

void check_score_order(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  if ((*base)[TensorId::kBlockScores].empty()) return trial.reject("the call has no scores");
  const Problem& p = base->c.problem;
  const Expected& due = base->reference[TensorId::kBlockScores];
  for (int64_t row = 0; row < base->reference.rows; ++row) {
    if (base->reference.state[static_cast<size_t>(row)] != RowState::kBounded) continue;
    const float* scores = &(*base)[TensorId::kBlockScores][static_cast<size_t>(row * due.columns)];
    const std::span<const int64_t> list = list_of(*base, row);
    int64_t candidates = 0;
    while (candidates < due.columns && due.rule[static_cast<size_t>(row * due.columns + candidates)] == 0)
      ++candidates;
    float least = std::numeric_limits<float>::infinity(), most = -least;
    for (int64_t j = p.selection.first; j < candidates - p.selection.last; ++j) {
      const bool chosen = std::ranges::find(list, j) != list.end();
      (chosen ? least : most) = chosen ? std::min(least, scores[j]) : std::max(most, scores[j]);
    }
    if (least >= most) continue;
    const Where where = where_is(TensorId::kChosen, p, base->plan, row, 0);
    trial.fail(Kind::kRelation, "the row of " + name_of(where) + " names a block whose written score is " +
                                    digits(least) + ", and not one whose written score is " + digits(most));
    trial.verdict().where = where;
    return;
  }
}

}  // namespace

extern const Property score_order = {
    .name = "score_order",
    .statement = "no block left out has a higher written score than a chosen one that is not forced",
    .adapt = adapt_score_order,
    .check = check_score_order,
    .compares = false,
    .operation = &operations::nsa_score,
    .packed = true};

}  // namespace attnfuzz::relations
