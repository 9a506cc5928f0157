// A mean of a constant is that constant. For constant V the bound is tight, because it contains no error of the
// scores. An accumulator that counts a tile twice, a missing rescale or a wrong denominator shows at once.
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_constant_value(Case& c, const KernelInfo&, std::string*) {
  store_v_apart(c);
  drop_sinks(c);
  c.v.kind = FillKind::kConstant;
  drop_planted(c, TensorId::kV);
  return true;
}

void check_constant_value(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  if (base->c.problem.batch == 0 || base->c.problem.seq_k == 0) return;
  // Reads the values back from the recipe, since the format may have clipped the exponent.
  std::vector<uint32_t> row(base->c.problem.dim_v);
  recipe_row(base->c, TensorId::kV, 0, 0, 0, row.data());
  Case plain = base->c;
  plain.nan_beyond_lengths = false;
  const double constant = value_at(plain, TensorId::kV, 0, 0, 0, 0);
  for (int64_t n = 0; n < base->reference.rows; ++n) {
    for (int64_t column = 0; column < base->c.problem.dim_v; ++column) {
      if (!output_is(trial, *base, TensorId::kO, n, column, constant, 0, "constant V")) return;
    }
  }
}

}  // namespace

extern const Property constant_value = {"constant_value",
                                        "if V is constant, every row that sees a key gives that constant",
                                        adapt_constant_value, check_constant_value};

}  // namespace attnfuzz::relations
