// One element of V that some rows see becomes NaN. These rows must give NaN in its column, or the kernel hides
// errors. The NaN must not reach another column, batch entry or KV head. If the plan says isolates_masked_nan,
// it must not reach a row that does not see it.
#include <limits>

#include "properties/judge/judge.h"
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_nan_visible(Case& c, const KernelInfo&, std::string*) {
  store_v_apart(c);
  Problem& p = c.problem;
  c.once = {};  // a value planted for one entry must not appear in another
  drop_non_finite(c);
  if (p.batch == 0) p.batch = 1;
  if (p.seq_q == 0) p.seq_q = 1;
  if (p.seq_k == 0) p.seq_k = 1;
  if (p.key_lengths) p.key_lengths->resize(p.batch, p.seq_k);
  if (!visible_pair(c, 1)) {
    show_everything(p);
    drop_planted(c, TensorId::kBias);
  }
  fit_memory(c);
  return true;
}

void check_nan_visible(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const Problem& p = base->c.problem;
  const std::optional<Pair> pair = visible_pair(base->c, 1);
  if (!pair) return trial.reject("no row sees a key");
  const int64_t group = p.heads_q / p.heads_kv, g = pair->h / group;
  const int64_t column = static_cast<int64_t>(choice(base->c, 3) % static_cast<uint64_t>(p.dim_v));
  Case other = variant_of(base->c);
  const uint32_t nan = bits_of(dtype_of(p, TensorId::kV), std::numeric_limits<float>::quiet_NaN());
  std::erase_if(other.planted, [&](const Planted& x) {
    return x.tensor == TensorId::kV && x.b == pair->b && x.h == g && x.s == pair->j && x.d == column;
  });
  other.planted.push_back({TensorId::kV, pair->b, g, pair->j, column, nan});
  const std::string label = "NaN at v(b=" + std::to_string(pair->b) + ",h=" + std::to_string(g) +
                            ",k=" + std::to_string(pair->j) + ",d=" + std::to_string(column) + ")";
  // The oracle checks that the rows that see it give NaN.
  const Run* run = trial.run(other, label);
  if (!run || !trial.promise_bits(base->plan, run->plan)) return;
  const std::vector<float>&before = (*base)[TensorId::kO], &now = (*run)[TensorId::kO];
  const bool isolates = run->plan.isolates_masked_nan != 0;
  for (int64_t row = 0; row < run->reference.rows; ++row) {
    const Row at = RowSpace(p).at(row);
    const bool near = at.b == pair->b && at.h / group == g;
    for (int64_t d = 0; d < p.dim_v; ++d) {
      // In this column of this KV head, rows that see the key must give NaN, and others may if the kernel does
      // not isolate.
      if (near && d == column && (!isolates || sees(other, at.b, at.h, at.i, pair->j))) continue;
      const int64_t n = row * p.dim_v + d;
      if (!first_difference(std::span(&before[n], 1), std::span(&now[n], 1))) continue;
      Where where = where_is(TensorId::kO, p, run->plan, row, d);
      where.expected = before[n];
      where.got = now[n];
      where.bad = where.of = 1;
      trial.fail(Kind::kRelation, label + " reached " + name_of(where) + ", which was " +
                                      digits(where.expected) + " without it and is " + digits(where.got));
      trial.verdict().where = where;
      return;
    }
  }
}

}  // namespace

extern const Property nan_visible = {
    .name = "nan_visible",
    .statement = "a NaN in one visible value comes out in the rows that see it and nowhere else",
    .adapt = adapt_nan_visible,
    .check = check_nan_visible,
    .compares = false,
    .kv8 = true};

}  // namespace attnfuzz::relations
