// If one gate of a row is 1 and the others are 0, O is the result of that side.
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::operations {
extern const Operation nsa_combine;
}

namespace attnfuzz::relations {
namespace {

// Gate s of query i is 1 if s = i mod 3.
bool adapt_combine_one_hot(Case& c, const KernelInfo&, std::string*) {
  c.gates = Fill{.kind = FillKind::kOneHot};
  drop_planted(c, TensorId::kGates);
  drop_non_finite(c);
  return true;
}

void check_combine_one_hot(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  constexpr TensorId kSides[] = {TensorId::kO1, TensorId::kO2, TensorId::kO3};
  for (const int64_t row : some_rows(base->c, base->plan.tile_q, 128)) {
    const Row at = RowSpace(base->c.problem).at(row);
    if (!row_arrives(trial, *base, TensorId::kO, row, kSides[at.i % 3], at, "one gate of 1, two of 0")) return;
  }
}

}  // namespace

extern const Property combine_one_hot = {.name = "combine_one_hot",
                                         .statement = "with one gate of 1 and two of 0, O is that side's",
                                         .adapt = adapt_combine_one_hot,
                                         .check = check_combine_one_hot,
                                         .operation = &operations::nsa_combine};

}  // namespace attnfuzz::relations
