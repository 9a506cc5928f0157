// Shows the weight of each interval of keys by itself. V is 1 in one column of each key and 0 elsewhere,
// and the column is constant within an interval. A column of O is therefore the sum of the weights of some
// intervals, and all columns of a row sum to 1. If the weight of a split, tile or page is off by a few percent,
// random V hardly shows it, because it averages to about 0 in each of them; here the error shows in full. The
// scores also change in steps, between intervals of their own.
#include <cmath>

#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

uint64_t interval(const Case& c, uint64_t salt) {
  const int64_t keys = std::max<int64_t>(c.problem.seq_k, 1);
  const int64_t parts = std::max<int64_t>(c.problem.num_splits, 2);
  const int64_t lengths[] = {16, 64, 128, (keys + 1) / 2, (keys + parts - 1) / parts, keys / 3 + 1};
  return static_cast<uint64_t>(lengths[choice(c, salt) % std::size(lengths)]);
}

bool adapt_interval_weight(Case& c, const KernelInfo&, std::string*) {
  store_v_apart(c);
  drop_sinks(c);
  drop_planted(c, TensorId::kV);
  c.v.exponent = 0;
  if (c.v.kind == FillKind::kIntervals) return true;
  const uint64_t of_values = interval(c, 1), of_scores = interval(c, 2);
  if (choice(c, 3) % 2 == 0) c.k = {.kind = FillKind::kLevels, .seed = of_scores};
  c.v = {.kind = FillKind::kIntervals, .seed = of_values};
  return true;
}

void check_interval_weight(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base || base->c.problem.batch == 0 || base->c.problem.seq_k == 0) return;
  const Expected& o = base->reference[TensorId::kO];
  for (int64_t row = 0; row < base->reference.rows; ++row) {
    if (base->reference.state[row] != RowState::kBounded) continue;
    double sum = 0, allowed = 0;
    bool bounded = o.columns > 0;
    for (int64_t at = row * o.columns; at < (row + 1) * o.columns; ++at) {
      bounded = bounded && o.rule[at] == 0;
      sum += (*base)[TensorId::kO][at];
      allowed += o.allowance(at);
    }
    if (!bounded || std::fabs(sum - 1) <= allowed) continue;
    trial.fail(Kind::kRelation, "row " + std::to_string(row) +
                                    ": the weights of all intervals of keys sum to " + std::to_string(sum) +
                                    ", and may differ from 1 by " + std::to_string(allowed));
    return;
  }
}

}  // namespace

extern const Property interval_weight = {
    "interval_weight", "each interval of keys has its weight in O, and all weights sum to one",
    adapt_interval_weight, check_interval_weight};

}  // namespace attnfuzz::relations
