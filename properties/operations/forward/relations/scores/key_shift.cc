// The same vector u added to every key adds scale * q.u to every score of a row. O does not change, and the LSE
// moves by that number. Small integers make the sum exact.
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_key_shift(Case& c, const KernelInfo&, std::string*) {
  store_v_apart(c);
  drop_sinks(c);
  if (c.k.kind != FillKind::kSmallInt || c.k.exponent != 0)
    c.k = Fill{.kind = FillKind::kSmallInt, .seed = c.k.seed};
  c.problem.softcap = 0;
  drop_planted(c, TensorId::kK);
  return true;
}

void check_key_shift(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  Case other = variant_of(base->c);
  const Problem& p = other.problem;
  other.remap.k_shift = Fill{.kind = FillKind::kSmallInt, .seed = base->c.k.seed + 1};
  const Run* run = trial.run(other, "K + u");
  if (!run || p.seq_k == 0) return;
  std::vector<double> q, k, shifted;
  for (int64_t row = 0; row < run->reference.rows; ++row) {
    const Row at = RowSpace(p).at(row);
    const int64_t length = key_length(p, at.b);
    if (length == 0) continue;
    if (at.i == 0) {
      // u is the difference of the first keys, as the kernel was given them.
      const int64_t g = at.h / (p.heads_q / p.heads_kv);
      q = matrix_at(other, TensorId::kQ, at.b, at.h);
      k = matrix_at(base->c, TensorId::kK, at.b, g);
      shifted = matrix_at(other, TensorId::kK, at.b, g);
    }
    double shift = 0;
    for (int64_t d = 0; d < p.dim_qk; ++d) shift += q[at.i * p.dim_qk + d] * (shifted[d] - k[d]);
    if (!trial.same_within(*base, row, *run, row, "the same vector added to every key", 1, shift * p.scale))
      return;
  }
}

}  // namespace

extern const Property key_shift = {"key_shift", "K + u leaves O and moves the LSE by scale * q.u",
                                   adapt_key_shift, check_key_shift};

}  // namespace attnfuzz::relations
