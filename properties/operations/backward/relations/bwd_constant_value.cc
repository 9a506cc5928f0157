// If all values are the same row, O is that row, whatever the weights are. So no score matters: dQ and dK are
// 0, within the bound.
#include "properties/operations/backward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt(Case& c, const KernelInfo&, std::string*) {
  drop_planted(c, TensorId::kV);
  drop_non_finite(c);
  if (c.v.kind != FillKind::kConstant) c.v = Fill{.kind = FillKind::kConstant};
  c.v.exponent = 0;
  return true;
}

void check(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  for (const TensorId t : {TensorId::kDq, TensorId::kDk}) {
    const Expected& due = base->reference[t];
    const std::vector<float>& got = (*base)[t];
    for (size_t n = 0; n < got.size(); ++n) {
      if (due.rule[n] != 0 || std::abs(got[n]) <= due.bound[n] * (1 + 1e-9)) continue;
      const auto at = static_cast<int64_t>(n);
      const Where where = where_is(t, base->c.problem, base->plan, at / due.columns, at % due.columns);
      trial.fail(Kind::kRelation, "all values are equal: " + name_of(where) + " is " + digits(got[n]) +
                                      ", must be 0 +- " + digits(due.bound[n]));
      return;
    }
  }
}

}  // namespace

extern const Property bwd_constant_value = {"bwd_constant_value",
                                            "equal values give no gradient of Q and K",
                                            adapt,
                                            check,
                                            /*needs_stages=*/false,
                                            /*asks_target=*/false,
                                            /*compares=*/false,
                                            /*operation=*/&operations::backward};

}  // namespace attnfuzz::relations
