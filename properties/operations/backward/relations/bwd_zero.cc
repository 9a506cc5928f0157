// If dO is 0, all gradients are +0 or -0, because dP and D are sums of zeros.
#include "properties/operations/backward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_bwd_zero(Case& c, const KernelInfo&, std::string*) {
  drop_planted(c, TensorId::kDout);
  take_no_dlse(c);
  drop_non_finite(c);
  c.dout = Fill{.kind = FillKind::kZero};
  return true;
}

void check_bwd_zero(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  for (const Expected& due : base->reference.outputs) {
    const std::vector<float>& got = (*base)[due.tensor];
    for (size_t n = 0; n < got.size(); ++n) {
      if (due.rule[n] != 0 || got[n] == 0) continue;
      const auto at = static_cast<int64_t>(n);
      const Where where = where_is(due.tensor, base->c.problem, base->plan, at / due.columns, at % due.columns);
      trial.fail(Kind::kRelation, "dO is 0: " + name_of(where) + " is " + digits(got[n]) + ", must be 0");
      return;
    }
  }
}

}  // namespace

extern const Property bwd_zero = {
    .name = "bwd_zero",
    .statement = "a gradient of 0 gives gradients of 0",
    .adapt = adapt_bwd_zero,
    .check = check_bwd_zero,
    .compares = false,
    .operation = &operations::backward,
    .key_blocks = true,
    .also = &operations::selected_backward};

}  // namespace attnfuzz::relations
