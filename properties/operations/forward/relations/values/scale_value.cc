// If V is multiplied by a power of two, O is multiplied by the same factor, exactly, unless a number underflows
// or overflows. This shows a constant that is added to the sum by mistake.
#include <cmath>
#include <cstdlib>

#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

constexpr int kScaleValuePower = 2;

bool adapt_scale_value(Case& c, const KernelInfo&, std::string*) {
  store_v_apart(c);
  drop_planted(c, TensorId::kV);
  if (!scales_exactly(c, TensorId::kV, kScaleValuePower))
    c.v = Fill{.kind = FillKind::kSmallInt, .seed = c.v.seed};
  return true;
}

void check_scale_value(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  Case other = variant_of(base->c);
  other.v.exponent += kScaleValuePower;
  const Run* run = trial.run(other, "V * 4");
  if (!run) return;
  const double factor = std::ldexp(1.0, kScaleValuePower);
  const char* what = "V scaled by 4";
  // If scores span at most 40 nats, every product and every rescaled sum stays above 2^-126. Results above
  // 2^-12 and values above 2^-20 keep O and P.V normal.
  constexpr double kNats = 40, kSmallest = 0x1p-12, kLargest = 0x1p12;
  const bool exact = !base->c.problem.sink && scales_through_sums(base->c.problem, base->plan) &&
                     score_range(base->c) <= kNats &&
                     (base->c.v.kind == FillKind::kSmallInt || base->c.v.kind == FillKind::kConstant ||
                      base->c.v.kind == FillKind::kOneHot) &&
                     std::abs(base->c.v.exponent) <= 8 && trial.promise_bits(base->plan, run->plan);
  const Reference& r = base->reference;
  const int64_t dim_v = base->c.problem.dim_v;
  for (int64_t row = 0; row < r.rows; ++row) {
    if (!trial.same_within(*base, row, *run, row, what, factor)) return;
    if (!exact || r.state[row] != RowState::kBounded) continue;
    for (int64_t column = 0; column < dim_v; ++column) {
      const int64_t at = row * dim_v + column;
      const double x = (*base)[TensorId::kO][at], y = (*run)[TensorId::kO][at];
      if (!(std::fabs(x) >= kSmallest && std::fabs(x) <= kLargest) || x * factor == y) continue;
      trial.fail(Kind::kRelation, std::string(what) + ": o of row " + std::to_string(row) + ", column " +
                                      std::to_string(column) + " must grow by exactly 4");
      return;
    }
  }
}

}  // namespace

extern const Property scale_value = {"scale_value",
                                     "V scaled by 2^k scales O by 2^k, bit for bit where nothing can underflow",
                                     adapt_scale_value, check_scale_value};

}  // namespace attnfuzz::relations
