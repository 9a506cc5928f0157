#include "reference/warnings/error_statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "reference/numbers/formats.h"
#include "reference/rows/row_terms.h"

namespace attnfuzz {
namespace {

// The measured constants a and b of the formula for T (error_statistics.h); `reference_audit advice` measures
// them.
constexpr double kAlike = 0.05, kEitherSide = 3, kEitherSideOfRow = 4, kEitherSideOfBias = 2, kSigmas = 4;
constexpr double kLseAlike = 0.1, kLseEitherSide = 2;

double share(double alike, double either_side, double scatter) {
  return std::min(1.0, alike + either_side * scatter);
}

bool speaks_of_o(const attn_plan& plan) {
  const bool v_as_it_is = plan.v_format == ATTN_FORMAT_UNKNOWN || plan.v_format == ATTN_FORMAT_F32 ||
                          plan.v_format == ATTN_FORMAT_OF_INPUT;
  const bool wide_partials = plan.partial_format == ATTN_FORMAT_F32 ||
                             (plan.num_splits <= 1 && plan.partial_format == ATTN_FORMAT_UNKNOWN);
  const bool wide_merges = plan.merge_format != ATTN_FORMAT_OF_INPUT;
  return plan.conversion == ATTN_CONVERT_NEAREST && plan.exp_error == 0 && plan.sum_rule == ATTN_SUM_OF_EXP &&
         wide_partials && wide_merges && v_as_it_is;
}

// False if the LSE's errors may be alike in all keys, for instance because the scale is folded into Q, which is
// then rounded once for all keys.
bool speaks_of_lse(const attn_plan& plan) {
  return plan.exp_error == 0 && plan.sum_rule == ATTN_SUM_OF_EXP && plan.qk_format == ATTN_FORMAT_UNKNOWN &&
         plan.scale_mode != ATTN_SCALE_UNKNOWN && plan.scale_mode != ATTN_SCALE_FOLDED_Q;
}

// The rounding of O's format.
struct OFormat {
  double unit, tiny;
  Rounding rounded;  // rounding of numbers that are not negative
  explicit OFormat(int32_t dtype)
      : unit(format_of(dtype).unit), tiny(format_of(dtype).tiny), rounded(rounding_of(dtype)) {}
  double half_ulp(double size) const {
    return unit * std::bit_cast<double>(std::bit_cast<uint64_t>(size) & 0x7ff0000000000000u);
  }
};

// One element of O. `value` and `got` are multiplied by the sign of the expected value.
struct OfO {
  double value, got;
  double left;    // R
  double beyond;  // x
};

// Fills in *out. False if the element is not used: its expected value is no number, is subnormal or may
// overflow, or its error is not within its bound.
bool look(const Expected& o, const OFormat& stored, int64_t at, float got, OfO* out) {
  const auto i = static_cast<size_t>(at);
  const double value = std::abs(o.value[i]), bound = o.bound[i];
  if (o.rule[i] != 0 || !(value >= stored.rounded.normal) || !(value + bound < o.overflow)) return false;
  out->value = value;
  out->got = std::copysign(1.0, o.value[i]) * static_cast<double>(got);
  out->left = (bound - stored.unit * value - stored.tiny) / (1 + stored.unit);
  const double error = std::abs(out->got - value);
  out->beyond = std::max(0.0, error - stored.half_ulp(std::max(value, std::abs(out->got))));
  return out->left > 0 && error < bound;
}

struct Sums {
  double errors = 0, typical = 0, typical_of_row = 0;  // sums of squares
  double moved = 0, up = 0, down = 0, may_move = 0;    // may_move is a sum of squares

  void add(const OfO& e, const OFormat& stored, double scatter) {
    const double square = e.left * e.left;
    const double of_all = share(kAlike, kEitherSide, scatter),
                 of_row = share(kAlike, kEitherSideOfRow, scatter);
    errors += e.beyond * e.beyond;
    typical += of_all * of_all * square;
    typical_of_row += of_row * of_row * square;
    const auto rounded = [&](double x) { return stored.rounded(std::max(0.0, x)); };
    const double nearest = rounded(e.value), step = share(kAlike, kEitherSideOfBias, scatter) * e.left;
    moved += e.got - nearest;
    up += rounded(e.value + step) - nearest;
    down += nearest - rounded(e.value - step);
    const double may = rounded(e.value + e.left) - rounded(e.value - e.left);
    may_move += may * may;
  }
  void add(const Sums& other) {
    errors += other.errors, typical += other.typical;
    moved += other.moved, up += other.up, down += other.down, may_move += other.may_move;
  }
};

void look_at_o(const Reference& reference, const OFormat& stored, std::span<const float> got,
               ErrorStatistics* statistics) {
  const Expected& o = reference[TensorId::kO];
  Sums all;
  for (int64_t row = 0; row < reference.rows; ++row) {
    const auto r = static_cast<size_t>(row);
    if (reference.state[r] != RowState::kBounded) continue;
    Sums sums;
    OfO element;
    for (int64_t at = row * o.columns; at < (row + 1) * o.columns; ++at) {
      if (look(o, stored, at, got[static_cast<size_t>(at)], &element))
        sums.add(element, stored, reference.o_scatter[r]);
    }
    all.add(sums);
    if (sums.errors <= statistics->row * statistics->row * sums.typical_of_row) continue;
    statistics->row = std::sqrt(sums.errors / sums.typical_of_row);
    statistics->worst_row = row;
  }
  if (all.errors > 0) statistics->size = std::sqrt(all.errors / all.typical);
  statistics->toward_zero = all.moved < 0;
  const double explained = (statistics->toward_zero ? all.down : all.up) + kSigmas * std::sqrt(all.may_move);
  if (all.moved != 0 && explained > 0) statistics->bias = std::abs(all.moved) / explained;
}

// |error| / T of a row's LSE, where T = min(1, a' + b' s') bound; 0 if the row has no bound to compare with.
double lse_ratio(const Reference& reference, int64_t row, float got) {
  const Expected& lse = reference[TensorId::kLse];
  const auto r = static_cast<size_t>(row);
  const double bound = lse.bound[r];
  if (reference.state[r] != RowState::kBounded || lse.rule[r] != 0 || !(bound > 0) || !std::isfinite(bound))
    return 0;
  return std::abs(static_cast<double>(got) - lse.value[r]) /
         (share(kLseAlike, kLseEitherSide, reference.lse_scatter[r]) * bound);
}

}  // namespace

ErrorStatistics error_statistics(const Reference& reference, int32_t dtype, const attn_plan& plan,
                                 std::span<const float> o, std::span<const float> lse) {
  ErrorStatistics statistics;
  if (reference.o_scatter.empty()) return statistics;
  if (!o.empty() && speaks_of_o(plan)) look_at_o(reference, OFormat(dtype), o, &statistics);
  if (lse.empty() || !speaks_of_lse(plan)) return statistics;
  for (int64_t row = 0; row < reference.rows; ++row) {
    const double ratio = lse_ratio(reference, row, lse[static_cast<size_t>(row)]);
    if (ratio > statistics.lse) statistics.lse = ratio, statistics.worst_lse = row;
  }
  return statistics;
}

std::vector<uint8_t> mark_beyond(const Reference& reference, int32_t dtype, TensorId tensor,
                                 std::span<const float> got) {
  std::vector<uint8_t> marks(got.size());
  const OFormat stored(dtype);
  const int64_t columns = reference[tensor].columns;
  for (size_t i = 0; i < got.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) / columns;
    const auto r = static_cast<size_t>(row);
    OfO element;
    if (tensor == TensorId::kLse)
      marks[i] = lse_ratio(reference, row, got[i]) > 1;
    else if (reference.state[r] == RowState::kBounded &&
             look(reference[tensor], stored, static_cast<int64_t>(i), got[i], &element))
      marks[i] = element.beyond > share(kAlike, kEitherSide, reference.o_scatter[r]) * element.left;
  }
  return marks;
}

}  // namespace attnfuzz
