// If all rows of V are equal, O is that row, whatever the weights are. So no score matters: dQ and dK are 0,
// within the bound. For a row whose scores overflow, a forward call may give any O, so cases with such a row
// are skipped. The oracle does not use that V is constant. If it passes a result that fails here, its bound has
// missed an error.
#include "properties/data/recipe.h"
#include "properties/operations/backward/relations/tools.h"
#include "reference/call/tensor_spec.h"
#include "reference/numbers/formats.h"

namespace attnfuzz::relations {
namespace {

bool adapt_bwd_constant_value(Case& c, const KernelInfo&, std::string*) {
  ask_for_the_usual(c);
  drop_planted(c, TensorId::kV);
  drop_non_finite(c);
  if (c.v.kind != FillKind::kConstant) c.v = Fill{.kind = FillKind::kConstant};
  c.v.exponent = 0;
  return true;
}

// True if the O that was given is the constant in every row that sees a key.
bool o_is_the_value(const Trial& trial, const Run& run) {
  const attn_problem& p = trial.laid_out()->laid.problem();
  const attn_tensor& o = trial.laid_out()->laid.tensors().o;  // an input of the backward pass
  Case plain = run.c;
  plain.nan_beyond_lengths = false;
  const double constant = value_at(plain, TensorId::kV, 0, 0, 0, 0);
  for (int64_t row = 0; row < run.reference.rows; ++row) {
    if (run.reference.state[static_cast<size_t>(row)] == RowState::kDead) continue;
    const int64_t i = row % p.seq_q, h = row / p.seq_q % p.heads_q, b = row / p.seq_q / p.heads_q;
    for (int64_t d = 0; d < p.dim_v; ++d) {
      const int64_t at = b * o.stride[0] + h * o.stride[1] + i * o.stride[2] + d * o.stride[3];
      if (decode(p.dtype, o.data, at) != constant) return false;
    }
  }
  return true;
}

void check_bwd_constant_value(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  if (base->c.problem.seq_k == 0) return;
  if (!o_is_the_value(trial, *base))
    return trial.reject("a row has scores that overflow: its O may be anything");
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

extern const Property bwd_constant_value = {
    .name = "bwd_constant_value",
    .statement = "equal values give no gradient of Q and K",
    .adapt = adapt_bwd_constant_value,
    .check = check_bwd_constant_value,
    .asks_target = true,
    .compares = false,
    .operation = &operations::backward,
    .key_blocks = true,
    .also = &operations::selected_backward};

}  // namespace attnfuzz::relations
