// Gradients are linear in dO: if dO is not 0 in two queries, the gradients are the sum of those for each query
// alone. When the calls are compared, each has already passed the oracle, so a failure here is one that the
// oracle has missed.
#include "properties/operations/backward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_bwd_linear(Case& c, const KernelInfo&, std::string*) {
  drop_planted(c, TensorId::kDout);
  take_no_dlse(c);
  drop_non_finite(c);
  c.dout = Fill{.kind = FillKind::kZero};
  c.dout_repeated = {};
  return true;
}

// One element of dO in each of two queries of a head, or twice in the same query if there is only one.
std::pair<Planted, Planted> two_elements(const Case& c) {
  const Problem& p = c.problem;
  const auto one_of = [&](uint64_t salt, int64_t n) {
    return static_cast<int64_t>(choice(c, salt) % static_cast<uint64_t>(n));
  };
  const int64_t b = one_of(1, p.batch), h = one_of(2, p.heads_q), i = one_of(3, p.seq_q);
  const Planted one = {TensorId::kDout, b, h, i, 0, bits_of(p.dtype, 1.0f)};
  const Planted other = {TensorId::kDout, b, h, (i + 1) % p.seq_q, p.dim_v - 1, bits_of(p.dtype, -2.0f)};
  return {one, other};
}

Case with(const Case& base, std::initializer_list<Planted> values) {
  Case c = variant_of(base);
  c.planted.insert(c.planted.end(), values);
  tidy(c);
  return c;
}

void check_bwd_linear(Trial& trial) {
  const Problem& p = trial.base().problem;
  if (p.batch < 1 || p.heads_q < 1 || p.seq_q < 1 || (p.seq_q == 1 && p.dim_v == 1))
    return void(trial.run(trial.base()));
  const auto [one, other] = two_elements(trial.base());
  const Run* a = trial.run(with(trial.base(), {one}), "dO in one query");
  if (!a) return;
  const Run* b = trial.run(with(trial.base(), {other}), "dO in another query");
  if (!b) return;
  const Run* both = trial.run(with(trial.base(), {one, other}), "dO in both queries");
  if (!both) return;
  for (const Expected& due : both->reference.outputs) {
    const Expected &due_a = a->reference[due.tensor], &due_b = b->reference[due.tensor];
    const std::vector<float>&x = (*a)[due.tensor], &y = (*b)[due.tensor], &z = (*both)[due.tensor];
    for (size_t n = 0; n < z.size(); ++n) {
      if (due.rule[n] != 0 || due_a.rule[n] != 0 || due_b.rule[n] != 0) continue;
      const double bound = due.bound[n] + due_a.bound[n] + due_b.bound[n];
      const double apart = std::abs(double{x[n]} + y[n] - z[n]);
      if (apart <= bound || !std::isfinite(apart)) continue;
      const auto at = static_cast<int64_t>(n);
      const Where where = where_is(due.tensor, p, both->plan, at / due.columns, at % due.columns);
      trial.fail(Kind::kRelation, "dO in two queries: " + name_of(where) + " is " + digits(z[n]) +
                                      ", must be the sum of " + digits(x[n]) + " and " + digits(y[n]) + " +- " +
                                      digits(bound));
      return;
    }
  }
}

}  // namespace

extern const Property bwd_linear = {
    .name = "bwd_linear",
    .statement = "gradients are linear in dO",
    .adapt = adapt_bwd_linear,
    .check = check_bwd_linear,
    .operation = &operations::backward,
    .key_blocks = true,
    .also = &operations::selected_backward};

}  // namespace attnfuzz::relations
