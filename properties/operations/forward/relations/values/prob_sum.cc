// With V = 1, O is the sum of the probabilities e^(x - LSE), which is 1. For a few rows the LSE is also
// compared with a plain sum over all keys, written here independently of the oracle.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_prob_sum(Case& c, const KernelInfo&, std::string*) {
  store_v_apart(c);
  drop_sinks(c);
  c.v = Fill{};
  drop_planted(c, TensorId::kV);
  c.want_lse = true;
  return true;
}

double naive_lse(const Case& c, const Row& at) {
  const Problem& p = c.problem;
  const int64_t g = at.h / (p.heads_q / p.heads_kv), n = p.dim_qk;
  const std::vector<double> q = matrix_at(c, TensorId::kQ, at.b, at.h), k = matrix_at(c, TensorId::kK, at.b, g);
  const int64_t own = p.align == ATTN_BOTTOM_RIGHT ? at.i + key_length(p, at.b) - p.seq_q : at.i;
  std::vector<double> scores;
  for (int64_t j = 0; j < p.seq_k; ++j) {
    if (!sees(c, at.b, at.h, at.i, j)) continue;
    double dot = 0;
    for (int64_t d = 0; d < n; ++d) dot += q[at.i * n + d] * k[j * n + d];
    double x = dot * p.scale;
    if (p.softcap > 0) x = p.softcap * std::tanh(x / p.softcap);
    if (p.bias) x += value_at(c, TensorId::kBias, at.b, at.h, at.i, j);
    if (p.slopes)
      x -= value_at(c, TensorId::kSlopes, at.b, at.h, 0, 0) * static_cast<double>(std::abs(own - j));
    scores.push_back(x);
  }
  if (scores.empty()) return -std::numeric_limits<double>::infinity();
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const double x : scores) sum += std::exp(x - largest);
  return largest + std::log(sum);
}

void check_prob_sum(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  for (int64_t row = 0; row < base->reference.rows; ++row) {
    for (int64_t column = 0; column < base->c.problem.dim_v; ++column) {
      if (!output_is(trial, *base, TensorId::kO, row, column, 1, 0, "V = 1")) return;
    }
  }
  for (const int64_t row : some_rows(base->c, base->plan.tile_q, 4)) {
    const double expected =
        naive_lse(base->c, RowSpace(base->c.problem).at(row)) / base->reference[TensorId::kLse].unit;
    // The tolerance covers the double arithmetic itself.
    if (!output_is(trial, *base, TensorId::kLse, row, 0, expected, 1e-12 * (1 + std::fabs(expected)),
                   "LSE by a plain sum"))
      return;
  }
}

}  // namespace

extern const Property prob_sum = {
    "prob_sum", "probabilities sum to one, and the LSE is the logarithm of what they were divided by",
    adapt_prob_sum, check_prob_sum};

}  // namespace attnfuzz::relations
