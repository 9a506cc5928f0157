// O is linear in the gates: if they are multiplied by a power of two, O is multiplied by it, bit for bit.
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::operations {
extern const Operation nsa_combine;
}

namespace attnfuzz::relations {
namespace {

// Values that stay far from the ends of every format.
bool adapt_combine_gates_scaled(Case& c, const KernelInfo&, std::string*) {
  c.planted.clear();
  for (Fill* fill : {&c.o1, &c.o2, &c.o3, &c.gates}) {
    const bool tame = fill->kind == FillKind::kSmallInt || fill->kind == FillKind::kConstant ||
                      fill->kind == FillKind::kOneHot || fill->kind == FillKind::kGaussian ||
                      fill->kind == FillKind::kUniform;
    if (!tame) *fill = Fill{.kind = FillKind::kSmallInt, .seed = fill->seed};
    fill->exponent = 0;
  }
  return true;
}

void check_combine_gates_scaled(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base || !scales_exactly(base->c, TensorId::kGates, 1)) return;
  Case other = variant_of(base->c);
  other.gates.exponent += 1;
  if (const Run* run = trial.run(other, "gates times 2")) doubles(trial, *base, *run, "gates times 2");
}

}  // namespace

extern const Property combine_gates_scaled = {.name = "combine_gates_scaled",
                                              .statement = "gates times 2^k give O times 2^k, bit for bit",
                                              .adapt = adapt_combine_gates_scaled,
                                              .check = check_combine_gates_scaled,
                                              .operation = &operations::nsa_combine};

}  // namespace attnfuzz::relations
