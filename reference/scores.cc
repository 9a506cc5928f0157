#include "reference/scores.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "reference/products.h"

namespace attnfuzz {
namespace {

using All = Eigen::Map<Eigen::ArrayXd>;
using AllConst = Eigen::Map<const Eigen::ArrayXd>;

bool any_below(const double* x, int64_t n, double least) {
  for (int64_t t = 0; t < n; ++t)
    if (x[t] != 0 && std::abs(x[t]) < least) return true;
  return false;
}

// |x|, but of what is not 0 no less than `least`.
double counted(double x, double least) { return x == 0 ? 0 : std::max(std::abs(x), least); }

// sum |q_t k_t| as the tensor core aligns it, where there are factors it takes for larger than they are.
void aligned_sizes(const ErrorModel& model, const Operands& operands, const ScoreInput& input, double* sizes) {
  const double least = model.least_factor;
  if (!(operands.least_key < least) && !any_below(input.q, operands.dim_qk, least)) return;
  for (int64_t k = 0; k < input.n; ++k) {
    const double* key =
        operands.keys.data() + input.keys[k] / kLanes * operands.dim_qk * kLanes + input.keys[k] % kLanes;
    double size = 0;
    for (int64_t t = 0; t < operands.dim_qk; ++t)
      size += counted(input.q[t], least) * counted(key[t * kLanes], least);
    sizes[k] = size;
  }
}

// What flushing may take from a score: subnormal factors, a subnormal scale.
void flushed_scores(const ErrorModel& model, const Operands& operands, const ScoreInput& input,
                    AllConst absolute, All delta) {
  if (!model.flushes) return;
  const double scale = std::abs(model.scale);
  if (scale < 2 * kFlush) delta += scale * absolute;
  if (!(operands.least_key < model.flushed_factor) &&
      !any_below(input.q, operands.dim_qk, model.flushed_factor))
    return;
  const double norm = AllConst(input.q, operands.dim_qk).abs().sum();
  for (int64_t k = 0; k < input.n; ++k)
    delta[k] += scale * kFlush * (norm + operands.key_norm[static_cast<size_t>(input.keys[k])]);
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
  // A cap that may be flushed divides by 0.
  if (model.flushes && model.softcap > 0 && model.softcap < kFlush) return true;
  // Weights that are misplaced too far overflow, and sooner so where P is fp16.
  return misplaced >= std::min(60.0, std::log2(model.p_overflow) - 1);
}

// The error of the row sum. Its parts are summed tile by tile: what each addition
// loses is u of the sum as it is then, at most that of the tiles so far.
double sum_error(const ErrorModel& model, const TileWalk& walk, int64_t n, const double* weight) {
  const double T = walk.rescales;
  if (model.sum_lanes <= 0) return gamma(static_cast<double>(n) + 2 * T, kU);
  const auto lanes = static_cast<double>(model.sum_lanes);
  const double most = std::ceil(static_cast<double>(model.tile_k) / lanes);
  double all = 0, so_far = 0, lost = 0;
  for (const TileRun& run : walk.runs) {
    double tile = 0;
    for (int64_t k = run.begin; k < run.end; ++k) tile += weight[k];
    so_far += tile;
    all += tile;
    lost += std::min(most, static_cast<double>(run.end - run.begin)) * so_far;
    if (run.last) so_far = 0;
  }
  return compound((lost / all + 2 * T + lanes - 1) * kU);
}

// The merge of S partials weighs each by e^(LSE_s - LSE), both rounded: what
// that adds to e_j, apart from its part that grows with R_j.
double merge_constant(const ErrorModel& model, double m, double n, double sum_gamma) {
  const double ln_n = std::log(n);
  const double once = 6 * kU * std::abs(m) + model.eps_log * (1 + ln_n) + 2 * kU * (std::abs(m) + ln_n) +
                      2 * model.eps_exp + (kU + 2 * model.eps_exp_slope) * ln_n;
  return model.merge_rounds * once + sum_gamma;
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
  for (Buffer* buffer :
       {&out->x, &out->e, &out->weight, &out->error, &out->delta, &out->tanh_size, &out->capped})
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
  All x(out->x.data(), n), e(out->e.data(), n), error(out->error.data(), n), delta(out->delta.data(), n),
      tanh_size(out->tanh_size.data(), n), capped(out->capped.data(), n);
  const AllConst absolute(input.absolute, n), running(input.running, n);
  out->absolute = input.absolute;
  const bool adjusted = model.softcap > 0 || input.bias != nullptr;

  x = AllConst(input.dot, n) * model.scale;
  // `delta` holds the sizes that the products' error is relative to, for now.
  delta = absolute;
  aligned_sizes(model, operands, input, delta.data());
  const double blocks = std::ceil(model.dim_qk / static_cast<double>(kDotBlock)) * model.score_block;
  if (model.ascending_dot && blocks < 1)
    delta = (running + delta) * (model.score_block / (1 - blocks));
  else
    delta *= model.score_gamma;
  delta = std::abs(model.scale) * (delta + model.dim_qk * kFlush);
  flushed_scores(model, operands, input, absolute, delta);
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

  error = delta + ((model.fused ? 0 : 2 * kU) + (adjusted ? kU : 0)) * x.abs();
  if (adjusted) error += 3 * kU * capped;
  if (input.bias) error += 3 * kU * AllConst(input.bias, n).abs();
  if (model.softcap > 0) error += model.softcap * (model.eps_tanh * tanh_size + 1.4 * kU);
  if (model.folded_unit > 0) {
    error += std::abs(model.scale) * model.folded_unit * absolute;
    for (int64_t k = 0; k < n; ++k)
      error[k] += model.folded_tiny * operands.key_norm[static_cast<size_t>(input.keys[k])];
  }
  out->largest_error = error.maxCoeff();
  walk_tiles(model, operands.first, input.keys, n, x.data(), error.data(), &out->walk);
  const double T = out->walk.rescales;
  for (int64_t k = 0; k < n; ++k) out->weight[static_cast<size_t>(k)] = std::exp(x[k] - m);
  out->sum_gamma = sum_error(model, out->walk, n, out->weight.data());
  const bool merged = model.splits > 1;
  out->merge_constant = merged ? merge_constant(model, m, static_cast<double>(n), out->sum_gamma) : 0;
  out->merge_range = merged ? model.merge_rounds * (6 * kU + 2 * model.eps_exp_slope) : 0;
  e = error + (5 * kU + 2 * model.eps_exp_slope + out->merge_range) * (m - x + delta + out->largest_delta) +
      (T * (model.eps_exp + 2 * kU) + out->merge_constant);
  return ScoreState::kBounded;
}

}  // namespace attnfuzz
