// A constant added to all scores of a row shifts the LSE and does not change O.
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_bias_shift(Case& c, const KernelInfo&, std::string*) {
  drop_sinks(c);
  Problem& p = c.problem;
  if (!p.bias) p.bias = Bias{};
  p.bias->kind = BiasKind::kZero;
  drop_planted(c, TensorId::kBias);
  return true;
}

void check_bias_shift(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  Case other = variant_of(base->c);
  other.problem.bias->kind = BiasKind::kRowConstant;
  const Run* run = trial.run(other, "a constant added to each row");
  if (!run) return;
  const Problem& p = other.problem;
  Case shown = other;  // the same bias without -inf: any key shows the row's constant
  shown.problem.bias->finite = Pattern{};
  for (int64_t row = 0; row < run->reference.rows; ++row) {
    const Row at = RowSpace(p).at(row);
    const double shift = p.seq_k > 0 ? bias_at(shown, at.b, at.h, at.i, 0) : 0;
    if (!trial.same_within(*base, row, *run, row, "a constant added to the row", 1, shift)) return;
  }
}

}  // namespace

extern const Property bias_shift = {"bias_shift",
                                    "a bias constant over each row moves the LSE by that constant and leaves O",
                                    adapt_bias_shift, check_bias_shift};

}  // namespace attnfuzz::relations
