// If dO is 0 except in one query, dQ of all other queries is 0, and so are dK and dV of the keys that this
// query does not see. A kernel that reads a row of a wrong query, head or batch entry fails.
#include "properties/operations/backward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_bwd_row(Case& c, const KernelInfo&, std::string*) {
  ask_for_the_usual(c);
  drop_planted(c, TensorId::kDout);
  drop_non_finite(c);
  c.dout_repeated = {};
  return true;
}

// The only query whose dO is not 0.
Row chosen(const Case& c) {
  const Problem& p = c.problem;
  const auto one_of = [&](uint64_t salt, int64_t n) {
    return static_cast<int64_t>(choice(c, salt) % static_cast<uint64_t>(n));
  };
  const int64_t i = one_of(1, 3) == 0 ? p.seq_q - 1 : one_of(2, p.seq_q);
  return {one_of(3, p.batch), one_of(4, p.heads_q), i};
}

void check_bwd_row(Trial& trial) {
  const Case& base = trial.base();
  const Problem& p = base.problem;
  if (p.batch < 1 || p.heads_q < 1 || p.seq_q < 1) return void(trial.run(base));
  const Row one = chosen(base);
  Case c = variant_of(base);
  c.dout = Fill{.kind = FillKind::kZero};
  for (const int64_t d : {int64_t{0}, p.dim_v / 2, p.dim_v - 1}) {
    if (d > 0 && c.planted.size() > 0 && c.planted.back().d == d) continue;
    c.planted.push_back({TensorId::kDout, one.b, one.h, one.i, d, bits_of(p.dtype, d == 0 ? 2.0f : -3.0f)});
  }
  tidy(c);
  const Run* run = trial.run(c, "dO is 0 but in one query");
  if (!run) return;
  const int64_t g = one.h / (p.heads_q / p.heads_kv);
  for (const Expected& due : run->reference.outputs) {
    const bool query = of_queries(spec_of(due.tensor));
    const std::vector<float>& got = (*run)[due.tensor];
    for (size_t n = 0; n < got.size(); ++n) {
      if (due.rule[n] != 0 || got[n] == 0) continue;
      const auto at = static_cast<int64_t>(n);
      const Where where = where_is(due.tensor, p, run->plan, at / due.columns, at % due.columns);
      const bool part = where.b == one.b && (query ? where.h == one.h && where.q == one.i
                                                   : where.h == g && sees(c, one.b, one.h, one.i, where.q));
      if (part) continue;
      trial.fail(Kind::kRelation, "dO is 0 but in the query (b=" + std::to_string(one.b) +
                                      ",h=" + std::to_string(one.h) + ",q=" + std::to_string(one.i) +
                                      "): " + name_of(where) + " is " + digits(got[n]) + ", must be 0");
      return;
    }
  }
}

}  // namespace

extern const Property bwd_row = {
    .name = "bwd_row",
    .statement = "a gradient in one query reaches that query and the keys that it sees",
    .adapt = adapt_bwd_row,
    .check = check_bwd_row,
    .compares = false,
    .operation = &operations::backward,
    .key_blocks = true,
    .also = &operations::selected_backward};

}  // namespace attnfuzz::relations
