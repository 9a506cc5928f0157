// If O of both sides is multiplied by a power of two, the merged O is multiplied by it, bit for bit, and the
// LSE stays the same, because the weights do not depend on O.
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::operations {
extern const Operation merge;
}

namespace attnfuzz::relations {
namespace {

constexpr int kMergeScaledPower = 1;

// Values that stay far from the ends of every format.
bool adapt_merge_scaled(Case& c, const KernelInfo&, std::string*) {
  c.planted.clear();
  for (Fill* fill : {&c.o1, &c.o2}) {
    if (fill->kind != FillKind::kSmallInt && fill->kind != FillKind::kConstant &&
        fill->kind != FillKind::kOneHot)
      *fill = Fill{.kind = FillKind::kSmallInt, .seed = fill->seed};
    fill->exponent = 0;
  }
  return true;
}

void check_merge_scaled(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  Case other = variant_of(base->c);
  other.o1.exponent += kMergeScaledPower;
  other.o2.exponent += kMergeScaledPower;
  const Run* run = trial.run(other, "O of both sides times 2");
  if (run) doubles(trial, *base, *run, "O of both sides times 2");
}

}  // namespace

extern const Property merge_scaled = {
    .name = "merge_scaled",
    .statement = "O of both sides times 2^k gives O times 2^k, bit for bit, and the same LSE",
    .adapt = adapt_merge_scaled,
    .check = check_merge_scaled,
    .operation = &operations::merge};

}  // namespace attnfuzz::relations
