// A weighted mean lies between the smallest and the largest value that it averages. A sink counts
// as a value of 0. This property needs no knowledge of the scores. It checks rows that have bounds. Rows whose
// scores are too uncertain for a bound are held to the hull by the oracle itself (RowState::kUninformative).
#include <algorithm>
#include <limits>

#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

void check_hull(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const Case& c = base->c;
  const Problem& p = c.problem;
  const Reference& r = base->reference;
  int64_t b = -1, g = -1;
  std::vector<double> v, low(p.dim_v), high(p.dim_v);
  for (const int64_t row : some_rows(c, base->plan.tile_q, 32)) {
    if (r.state[row] != RowState::kBounded) continue;
    const Row at = RowSpace(p).at(row);
    const int64_t head = at.h / (p.heads_q / p.heads_kv);
    if (at.b != b || head != g) v = matrix_at(c, TensorId::kV, b = at.b, g = head);
    const double beyond = p.sink ? 0 : std::numeric_limits<double>::infinity();
    std::fill(low.begin(), low.end(), beyond);
    std::fill(high.begin(), high.end(), -beyond);
    for (int64_t j = 0; j < p.seq_k; ++j) {
      if (!sees(c, at.b, at.h, at.i, j)) continue;
      for (int64_t d = 0; d < p.dim_v; ++d) {
        low[d] = std::min(low[d], v[j * p.dim_v + d]);
        high[d] = std::max(high[d], v[j * p.dim_v + d]);
      }
    }
    for (int64_t d = 0; d < p.dim_v; ++d) {
      const double nearest =
          std::clamp<double>((*base)[TensorId::kO][row * p.dim_v + d], low[d], std::max(low[d], high[d]));
      if (!output_is(trial, *base, TensorId::kO, row, d, nearest, 0, "hull of the visible V")) return;
    }
  }
}

}  // namespace

extern const Property hull = {
    .name = "hull",
    .statement = "every element of O lies in the hull of the visible values of its column",
    .adapt = any_case,
    .check = check_hull,
    .kv8 = true,
    .key_blocks = true};

}  // namespace attnfuzz::relations
