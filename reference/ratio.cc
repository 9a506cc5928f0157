#include <cmath>
#include <limits>

#include "reference/oracle.h"
#include "reference/weighted_mean.h"

namespace attnfuzz {
namespace {

constexpr double kFails = std::numeric_limits<double>::infinity();

double ratio(double value, double centre, double bound) {
  if (std::isinf(bound)) return 0;
  const double error = std::abs(value - centre);
  if (error == 0) return 0;
  return bound > 0 ? error / bound : kFails;
}

}  // namespace

double ratio_o(const Reference& reference, int64_t row, int64_t column, float value) {
  const RowState state = reference.state[static_cast<size_t>(row)];
  if (state == RowState::kSkipped) return 0;
  const auto at = static_cast<size_t>(row * reference.dim_v + column);
  if (state == RowState::kDead) return value == 0 ? 0 : kFails;
  const Column rule = static_cast<Column>(reference.o_nan[at]);
  if (rule == Column::kAnything) return 0;
  if (rule == Column::kMustBeNaN) return std::isnan(value) ? 0 : kFails;
  if (std::isnan(value)) return kFails;
  const double centre = reference.o[at], bound = reference.o_bound[at];
  if (std::isinf(value)) return (value > 0 ? centre : -centre) + bound >= reference.overflow ? 0 : kFails;
  return ratio(static_cast<double>(value), centre, bound);
}

double ratio_lse(const Reference& reference, int64_t row, float value) {
  switch (reference.state[static_cast<size_t>(row)]) {
    case RowState::kSkipped:
    case RowState::kUnconstrained:
      return 0;
    case RowState::kDead:
      return value == -std::numeric_limits<float>::infinity() ? 0 : kFails;
    case RowState::kNaN:
      return std::isnan(value) ? 0 : kFails;
    default:
      if (!std::isfinite(value)) return kFails;
      return ratio(static_cast<double>(value), reference.lse[static_cast<size_t>(row)],
                   reference.lse_bound[static_cast<size_t>(row)]);
  }
}

}  // namespace attnfuzz
