// O of both sides times a power of two gives O times that power, bit for bit, and the same LSE: the weights do
// not depend on O.
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::operations {
extern const Operation merge;
}

namespace attnfuzz::relations {
namespace {

constexpr int kPower = 1;

// Values that stay far from the ends of every format.
bool adapt(Case& c, const KernelInfo&, std::string*) {
  c.planted.clear();
  for (Fill* fill : {&c.o1, &c.o2}) {
    if (fill->kind != FillKind::kSmallInt && fill->kind != FillKind::kConstant &&
        fill->kind != FillKind::kOneHot)
      *fill = Fill{.kind = FillKind::kSmallInt, .seed = fill->seed};
    fill->exponent = 0;
  }
  return true;
}

void check(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  Case other = variant_of(base->c);
  other.o1.exponent += kPower;
  other.o2.exponent += kPower;
  const Run* run = trial.run(other, "O of both sides times 2");
  if (!run) return;
  const std::vector<float>&o = (*base)[TensorId::kO], &twice = (*run)[TensorId::kO];
  const bool exact = same_work(base->plan, run->plan);
  constexpr float kSmallest = 0x1p-12f;  // a smaller element may round as a subnormal
  const int64_t columns = base->c.problem.dim_v;
  for (int64_t row = 0; row < base->reference.rows; ++row) {
    if (!trial.same_within(*base, row, *run, row, "O of both sides times 2", 2)) return;
    for (int64_t n = row * columns; exact && n < (row + 1) * columns; ++n) {
      const auto at = static_cast<size_t>(n);
      if (!(std::abs(o[at]) >= kSmallest) || 2 * o[at] == twice[at]) continue;
      trial.fail(Kind::kRelation, "O of both sides times 2: o of row " + std::to_string(row) + ", column " +
                                      std::to_string(n % columns) + " must grow by exactly 2");
      return;
    }
  }
}

}  // namespace

extern const Property merge_scaled = {
    "merge_scaled",
    "O of both sides times 2^k gives O times 2^k, bit for bit, and the same LSE",
    adapt,
    check,
    /*needs_stages=*/false,
    /*asks_target=*/false,
    /*compares=*/true,
    /*operation=*/&operations::merge};

}  // namespace attnfuzz::relations
