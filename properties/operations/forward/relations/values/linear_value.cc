// O is linear in V. Sums of small integers are exact in 16 bits, so the only differences are the kernel's own
// errors in the three runs.
#include <cmath>

#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_linear_value(Case& c, const KernelInfo&, std::string*) {
  store_v_apart(c);
  if (c.v.kind != FillKind::kSmallInt || c.v.exponent != 0)
    c.v = Fill{.kind = FillKind::kSmallInt, .seed = c.v.seed};
  drop_planted(c, TensorId::kV);
  return true;
}

void check_linear_value(Trial& trial) {
  const Run* first = trial.run(trial.base());
  if (!first) return;
  Case other = variant_of(first->c);
  ++other.v.seed;
  const Run* second = trial.run(other, "V2");
  if (!second) return;
  Case sum = variant_of(first->c);
  sum.remap.v_added = other.v;
  const Run* both = trial.run(sum, "V1 + V2");
  if (!both) return;
  constexpr TensorId kO = TensorId::kO;
  const Expected &r1 = first->reference[kO], &r2 = second->reference[kO], &r = both->reference[kO];
  for (int64_t row = 0; row < both->reference.rows; ++row) {
    if (both->reference.state[row] != RowState::kBounded) continue;
    for (int64_t column = 0; column < r.columns; ++column) {
      const int64_t at = row * r.columns + column;
      if (r.rule[at] != 0) continue;
      const double expected = static_cast<double>((*first)[kO][at]) + (*second)[kO][at];
      const double got = (*both)[kO][at], bound = r1.allowance(at) + r2.allowance(at) + r.allowance(at);
      if (std::fabs(got - expected) <= bound) continue;
      trial.fail(Kind::kRelation, "O(V1) + O(V2) against O(V1 + V2): row " + std::to_string(row) + ", column " +
                                      std::to_string(column) + " gives " + std::to_string(expected) + " and " +
                                      std::to_string(got) + ", which may differ by " + std::to_string(bound));
      return;
    }
  }
}

}  // namespace

extern const Property linear_value = {"linear_value", "O(V1) + O(V2) = O(V1 + V2) within the three bounds",
                                      adapt_linear_value, check_linear_value};

}  // namespace attnfuzz::relations
