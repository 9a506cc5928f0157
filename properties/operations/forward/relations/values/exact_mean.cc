// With Q = 0, all n visible keys have equal weight: O is the mean of their V, and the LSE is ln n. With a
// one-hot V each column counts certain keys, so a key that was missed or counted twice can be named.
#include <algorithm>
#include <cmath>

#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_exact_mean(Case& c, const KernelInfo&, std::string*) {
  store_v_apart(c);
  drop_sinks(c);
  drop_slopes(c);
  c.q = Fill{.kind = FillKind::kZero};
  drop_planted(c, TensorId::kQ);
  drop_planted(c, TensorId::kK);
  drop_planted(c, TensorId::kV);
  drop_planted(c, TensorId::kBias);
  if (c.problem.bias) c.problem.bias->kind = BiasKind::kZero;
  if (c.v.kind != FillKind::kSmallInt && c.v.kind != FillKind::kOneHot) c.v = Fill{.kind = FillKind::kOneHot};
  c.v.exponent = 0;
  return true;
}

void check_exact_mean(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const Case& c = base->c;
  const Problem& p = c.problem;
  int64_t b = -1, g = -1;
  std::vector<double> v, sum(p.dim_v);
  for (const int64_t row : some_rows(c, base->plan.tile_q, 64)) {
    const Row at = RowSpace(p).at(row);
    const int64_t head = at.h / (p.heads_q / p.heads_kv);
    if (at.b != b || head != g) v = matrix_at(c, TensorId::kV, b = at.b, g = head);
    std::fill(sum.begin(), sum.end(), 0.0);
    int64_t n = 0;
    for (int64_t j = 0; j < p.seq_k; ++j) {
      if (!sees(c, at.b, at.h, at.i, j)) continue;
      ++n;
      for (int64_t d = 0; d < p.dim_v; ++d) sum[d] += v[j * p.dim_v + d];
    }
    if (n == 0) continue;
    const std::string what = "mean of " + std::to_string(n) + " visible keys";
    for (int64_t d = 0; d < p.dim_v; ++d) {
      const double mean = sum[d] / static_cast<double>(n);
      if (!output_is(trial, *base, TensorId::kO, row, d, mean, 0, what)) return;
    }
    const double lse = std::log(static_cast<double>(n)) / base->reference[TensorId::kLse].unit;
    if (!output_is(trial, *base, TensorId::kLse, row, 0, lse, 1e-14 * (1 + lse), what)) return;
  }
}

}  // namespace

extern const Property exact_mean = {"exact_mean", "with Q = 0 O is the mean of the visible V, and LSE = ln n",
                                    adapt_exact_mean, check_exact_mean};

}  // namespace attnfuzz::relations
