#include "reference/scores.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace attnfuzz {
namespace {

using All = Eigen::Map<Eigen::ArrayXd>;
using AllConst = Eigen::Map<const Eigen::ArrayXd>;

// q.k and sum |q_t k_t| of the visible keys, a panel at a time.
void products(const Operands& operands, const ScoreInput& input, double* dot, double* absolute) {
  const int64_t d = operands.dim_qk;
  int64_t k = 0;
  while (k < input.n) {
    const int64_t panel = input.keys[k] / kLanes;
    const double* keys = operands.keys.data() + panel * d * kLanes;
    Lanes sum = Lanes::Zero(), sum_absolute = Lanes::Zero();
    for (int64_t t = 0; t < d; ++t) {
      const LanesAt key(keys + t * kLanes);
      sum += input.q[t] * key;
      sum_absolute += std::abs(input.q[t]) * key.abs();
    }
    for (; k < input.n && input.keys[k] / kLanes == panel; ++k) {
      dot[k] = sum[input.keys[k] % kLanes];
      absolute[k] = sum_absolute[input.keys[k] % kLanes];
    }
  }
}

// Impure inputs decide a row before any arithmetic does.
ScoreState purity(const Operands& operands, const ScoreInput& input) {
  bool infinite = input.q_purity == Purity::kInfinite;
  bool nan = input.q_purity == Purity::kNaN;
  if (!operands.pure_keys)
    for (int64_t k = 0; k < input.n; ++k) {
      const Purity key = operands.key_purity[static_cast<size_t>(input.keys[k])];
      infinite = infinite || key == Purity::kInfinite;
      nan = nan || key == Purity::kNaN;
    }
  if (input.bias)
    for (int64_t k = 0; k < input.n; ++k) {
      infinite = infinite || std::isinf(input.bias[k]);
      nan = nan || std::isnan(input.bias[k]);
    }
  return nan ? ScoreState::kNaN : infinite ? ScoreState::kUnconstrained : ScoreState::kBounded;
}

// Scale folded into Q: the 16-bit query may itself overflow (with log2 e folded in, earlier).
bool folded_query_overflows(const ErrorModel& model, const Operands& operands, const double* q) {
  if (model.folded_unit == 0) return false;
  const double most = AllConst(q, operands.dim_qk).abs().maxCoeff();
  return most * std::abs(model.scale) * std::numbers::log2e >= model.folded_overflow;
}

// fp32 arithmetic may overflow on the way to these scores. A key far below a
// moderate maximum is no danger, however low: its weight is 0 either way. Nor are
// keys that are all equally low, as those of a row that a bias of the lowest
// finite number was meant to mask: their weights are equal.
bool overflows(const ErrorModel& model, double most_absolute, double most_capped, double m, bool level,
               double misplaced) {
  constexpr double kScore = kOverflow / std::numbers::log2e;
  if (!(most_absolute < kOverflow) || !(most_absolute * std::abs(model.scale) < kScore)) return true;
  if (!(std::abs(m) < kScore) && !(level && m < 0 && -m <= std::numeric_limits<float>::max())) return true;
  if (!(most_capped < kScore)) return true;
  // Weights that are misplaced too far overflow, and sooner so where P is fp16.
  return misplaced >= std::min(60.0, std::log2(model.p_overflow) - 1);
}

// The merge of S partials weighs each by e^(LSE_s - LSE), both rounded: what
// that adds to e_j, apart from its part that grows with R_j.
double merge_constant(const ErrorModel& model, double m, double n, double T) {
  const double ln_n = std::log(n);
  return 6 * kU * std::abs(m) + model.eps_log * (1 + ln_n) + 2 * kU * (std::abs(m) + ln_n) +
         gamma(n + 2 * T, kU) + 2 * model.eps_exp + (kU + 2 * model.eps_exp_slope) * ln_n;
}

void softcap(const ErrorModel& model, int64_t n, double* x, double* tanh_size) {
  for (int64_t k = 0; k < n; ++k) {
    const double t = std::tanh(x[k] / model.softcap);
    tanh_size[k] = std::abs(t);
    x[k] = model.softcap * t;
  }
}

void reserve(int64_t n, RowScores* out) {
  if (out->x.size() >= static_cast<size_t>(n)) return;
  for (Buffer* buffer : {&out->x, &out->e, &out->absolute, &out->delta, &out->tanh_size, &out->capped})
    buffer->resize(static_cast<size_t>(n));
}

}  // namespace

ScoreState row_scores(const ErrorModel& model, const Operands& operands, const ScoreInput& input,
                      RowScores* out) {
  const ScoreState state = purity(operands, input);
  if (state != ScoreState::kBounded) return state;
  if (folded_query_overflows(model, operands, input.q)) return ScoreState::kUnconstrained;
  const int64_t n = input.n;
  reserve(n, out);
  All x(out->x.data(), n), e(out->e.data(), n), delta(out->delta.data(), n), absolute(out->absolute.data(), n),
      tanh_size(out->tanh_size.data(), n), capped(out->capped.data(), n);
  const bool adjusted = model.softcap > 0 || input.bias != nullptr;

  products(operands, input, x.data(), absolute.data());
  x *= model.scale;
  delta = std::abs(model.scale) * (model.score_gamma * absolute + model.dim_qk * kFlush);
  if (model.softcap > 0) softcap(model, n, x.data(), tanh_size.data());
  if (adjusted) capped = x.abs();
  if (input.bias) x += AllConst(input.bias, n);

  const double m = x.maxCoeff();
  out->largest_delta = delta.maxCoeff();
  // exp2(fma(s, sigma, -mu)) at the maximum is not 1: the rounding error of mu is left.
  const double misplaced =
      model.may_be_fused ? kU * (std::abs(m) + out->largest_delta) * std::numbers::log2e : 0;
  if (overflows(model, absolute.maxCoeff(), adjusted ? capped.maxCoeff() : 0, m, x.minCoeff() == m, misplaced))
    return ScoreState::kUnconstrained;
  out->misplaced = std::exp2(misplaced);

  const double T = rescales_of(model, operands.first + input.keys[0], operands.first + input.keys[n - 1]);
  out->tiles = T;
  const bool merged = model.splits > 1;
  const double per_range = (merged ? 11 : 5) * kU + (merged ? 4 : 2) * model.eps_exp_slope;
  const double per_score = (model.fused ? 0 : 2 * kU) + (adjusted ? kU : 0);
  const double constant =
      T * (model.eps_exp + 2 * kU) + (merged ? merge_constant(model, m, static_cast<double>(n), T) : 0);
  e = delta + per_range * (m - x + delta + out->largest_delta) + per_score * x.abs() + constant;
  if (adjusted) e += 3 * kU * capped;
  if (input.bias) e += 3 * kU * AllConst(input.bias, n).abs();
  if (model.softcap > 0) e += model.softcap * (model.eps_tanh * tanh_size + 1.4 * kU);
  if (model.folded_unit > 0) {
    e += std::abs(model.scale) * model.folded_unit * absolute;
    for (int64_t k = 0; k < n; ++k)
      e[k] += model.folded_tiny * operands.key_norm[static_cast<size_t>(input.keys[k])];
  }
  return ScoreState::kBounded;
}

}  // namespace attnfuzz
