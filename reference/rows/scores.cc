#include "reference/rows/scores.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "reference/rows/products.h"
#include "reference/rows/row_loops.h"
#include "reference/rows/row_terms.h"
#include "reference/semantics.h"

namespace attnfuzz {
namespace {

using All = Eigen::Map<Eigen::ArrayXd>;
using AllConst = Eigen::Map<const Eigen::ArrayXd>;

bool any_below(const double* x, int64_t n, double least) {
  if (least == 0) return false;
  for (int64_t t = 0; t < n; ++t)
    if (x[t] != 0 && std::abs(x[t]) < least) return true;
  return false;
}

// sum |q_t k_t|, where a factor below least_factor that is not 0 counts as least_factor (counted() in
// row_terms.h). Returns false, and writes nothing, if there is no such factor.
bool aligned_sizes(const ErrorModel& model, const Operands& operands, const ScoreInput& input, double* sizes) {
  const double least = model.least_factor;
  if (!(operands.least_key < least) && !any_below(input.q, operands.dim_qk, least)) return false;
  // All keys of a panel at once.
  for (int64_t k = 0; k < input.n;) {
    const int64_t panel = input.keys[k] / kLanes;
    const double* keys = operands.aligned.data() + panel * operands.dim_qk * kLanes;
    Lanes size = Lanes::Zero();
    for (int64_t t = 0; t < operands.dim_qk; ++t)
      size += counted(input.q[t], least) * LanesAt(keys + t * kLanes);
    for (; k < input.n && input.keys[k] / kLanes == panel; ++k) sizes[k] = size[input.keys[k] % kLanes];
  }
  return true;
}

// Adds to delta what flushing may take from a score: subnormal factors, a subnormal scale. False if nothing
// is flushed.
bool flushed_scores(const ErrorModel& model, const Operands& operands, const ScoreInput& input,
                    AllConst absolute, All delta) {
  if (!model.flushes) return false;
  const double scale = std::abs(model.scale);
  const bool of_scale = scale < 2 * kFlush;
  if (of_scale) delta += scale * absolute;
  if (!(operands.least_key < model.flushed_factor) &&
      !any_below(input.q, operands.dim_qk, model.flushed_factor))
    return of_scale;
  const double norm = AllConst(input.q, operands.dim_qk).abs().sum();
  for (int64_t k = 0; k < input.n; ++k)
    delta[k] += scale * kFlush * (norm + operands.key_norm[static_cast<size_t>(input.keys[k])]);
  return true;
}

// Adds to delta what applying the scales of 8-bit keys may change in a product. `x`: tau q.k.
bool scaled_scores(const ErrorModel& model, const Operands& operands, const ScoreInput& input,
                   AllConst absolute, AllConst x, All delta) {
  if (!model.narrow) return false;
  const double scale = std::abs(model.scale);
  if (model.key_overflow > 0 && model.key_unit > 0) {
    const double norm = AllConst(input.q, operands.dim_qk).abs().sum();
    delta += model.key_unit * (delta + scale * absolute) + scale * model.key_tiny * norm;
  }
  delta += model.scaled_unit * (x.abs() + delta);
  // A scale times a key's scale may be no normal number.
  if (scale * model.least_key_scale < 2 * kFlush) delta += scale * absolute;
  return true;
}

// Inputs that are not finite decide a row before any arithmetic.
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

// If the scale is folded into Q, the 16-bit query may overflow (earlier with log2 e folded in).
bool folded_query_overflows(const ErrorModel& model, const Operands& operands, const double* q) {
  if (model.folded_unit == 0) return false;
  const double most = AllConst(q, operands.dim_qk).abs().maxCoeff();
  return most * std::abs(model.scale) * std::numbers::log2e >= model.folded_overflow;
}

// Q or K may overflow in the format that they are converted to.
bool factors_overflow(const ErrorModel& model, const Operands& operands, const ScoreInput& input) {
  if (model.factor_overflow == 0) return false;
  const double most = AllConst(input.q, operands.dim_qk).abs().maxCoeff();
  return most >= model.factor_overflow || std::any_of(input.keys, input.keys + input.n, [&](int64_t key) {
           return operands.key_norm[static_cast<size_t>(key)] >= model.factor_overflow;
         });
}

// Adds what the conversion of Q and K may change in a score.
void converted_factors(const ErrorModel& model, const Operands& operands, const ScoreInput& input,
                       AllConst absolute, All error) {
  if (model.factor_unit == 0) return;
  const double u = model.factor_unit, tiny = model.factor_tiny, scale = std::abs(model.scale);
  const double norm = AllConst(input.q, operands.dim_qk).abs().sum();
  error += scale * (2 * u + u * u) * absolute;
  for (int64_t k = 0; k < input.n; ++k)
    error[k] +=
        scale * tiny *
        ((1 + u) * (norm + operands.key_norm[static_cast<size_t>(input.keys[k])]) + model.dim_qk * tiny);
}

// The error of the row sum. Its parts are summed tile by tile. An addition loses at most u times the
// partial sum, which within a tile is at most the sum of all weights up to the tile's end.
double sum_error_of(const ErrorModel& model, const TileWalk& walk, int64_t n, bool sink, const double* weight) {
  const double count = static_cast<double>(n + sink);
  if (model.sum_lanes <= 0) return sum_error(model, walk.rescales, count, 0);
  const double most = most_additions(model);
  double all = 0, so_far = 0, lost = 0, additions = 1;
  for (const TileRun& run : walk.runs) {
    const double tile = row_loops().sum(weight + run.begin, run.end - run.begin);
    so_far += tile;
    all += tile;
    const double more = std::min(most, static_cast<double>(run.end - run.begin));
    lost += more * so_far;
    additions += more;
    if (run.last) so_far = 0;
  }
  // If a sink comes first, each addition may lose u of the whole sum.
  return sum_error(model, walk.rescales, count, sink ? additions : lost / all);
}

void softcap(const ErrorModel& model, int64_t n, double* x, double* tanh_size) {
  for (int64_t k = 0; k < n; ++k) {
    const Capped score = capped(model.softcap, x[k]);
    tanh_size[k] = std::abs(score.tanh);
    x[k] = score.value;
  }
}

// Adds the terms of err_j (scores.h) that loops.scores() does not add.
void other_errors(const ErrorModel& model, const Operands& operands, const ScoreInput& input,
                  const RowScores& scores, All error) {
  const int64_t n = input.n;
  const AllConst absolute(input.absolute, n), capped(scores.capped.data(), n),
      tanh_size(scores.tanh_size.data(), n);
  if (model.softcap > 0 || input.bias || input.alibi) error += 3 * kU * capped;
  if (input.bias) error += 3 * kU * AllConst(input.bias, n).abs();
  for (int64_t k = 0; input.alibi && k < n; ++k)
    error[k] += alibi_error(input.alibi[k], input.distance[k], input.bias != nullptr,
                            input.bias ? input.bias[k] : 0, capped[k]);
  if (model.softcap > 0) error += model.softcap * (model.eps_tanh * tanh_size + 1.4 * kU);
  if (model.folded_unit > 0) {
    error += std::abs(model.scale) * model.folded_unit * absolute;
    for (int64_t k = 0; k < n; ++k)
      error[k] += model.folded_tiny * operands.key_norm[static_cast<size_t>(input.keys[k])];
  }
  converted_factors(model, operands, input, absolute, error);
}

void reserve(int64_t n, RowScores* out) {
  if (out->x.size() >= static_cast<size_t>(n)) return;
  for (Buffer* buffer :
       {&out->x, &out->e, &out->weight, &out->error, &out->delta, &out->tanh_size, &out->capped})
    buffer->resize(static_cast<size_t>(n));
}

// The rounding errors of the row sum and of a merge of splits, from the weights. `farthest`: the largest size
// that a maximum on the way may have.
void sum_errors(const ErrorModel& model, int64_t n, bool sink, double farthest, RowScores* out) {
  out->sum_gamma = sum_error_of(model, out->walk, n, sink, out->weight.data());
  const bool merged = model.splits > 1;
  out->merge_constant =
      merged ? merge_constant(model, farthest, static_cast<double>(n + sink), out->sum_gamma) : 0;
  out->merge_range = merged ? model.merge_rounds * (6 * kU + 2 * model.eps_exp_slope) : 0;
}

}  // namespace

ScoreState row_scores(const ErrorModel& model, const Operands& operands, const ScoreInput& input,
                      RowScores* out) {
  const ScoreState state = purity(operands, input);
  if (state != ScoreState::kBounded) return state;
  if (folded_query_overflows(model, operands, input.q)) return ScoreState::kUnconstrained;
  if (factors_overflow(model, operands, input)) return ScoreState::kUnconstrained;
  const int64_t n = input.n;
  reserve(n, out);
  All x(out->x.data(), n), e(out->e.data(), n), error(out->error.data(), n), delta(out->delta.data(), n),
      tanh_size(out->tanh_size.data(), n), capped(out->capped.data(), n);
  const AllConst absolute(input.absolute, n);
  const RowLoops& loops = row_loops();
  out->absolute = input.absolute;
  const bool adjusted = model.softcap > 0 || input.bias != nullptr || input.alibi != nullptr;

  // The sizes that the products' error is relative to. The buffer e is free until the end.
  const double* sizes = aligned_sizes(model, operands, input, e.data()) ? e.data() : input.absolute;
  const double blocks = std::ceil(model.dim_qk / static_cast<double>(kDotBlock)) * model.score_block;
  const bool ascending = model.ascending_dot && blocks < 1;
  const double unit = (model.fused ? 0 : 2 * kU) + (adjusted ? kU : 0);
  ScoreExtent extent = loops.scores(input.dot, sizes, ascending ? input.running : nullptr, n,
                                    {.scale = model.scale,
                                     .factor = ascending ? model.score_block / (1 - blocks) : model.score_gamma,
                                     .least = model.dim_qk * model.product_flush,
                                     .unit = unit},
                                    x.data(), delta.data(), error.data());
  const bool scaled = scaled_scores(model, operands, input, absolute, AllConst(x.data(), n), delta);
  const bool flushed = flushed_scores(model, operands, input, absolute, delta) || scaled;
  if (model.softcap > 0) softcap(model, n, x.data(), tanh_size.data());
  if (adjusted) capped = x.abs();
  if (input.bias) x += AllConst(input.bias, n);
  if (input.alibi) x += AllConst(input.alibi, n);
  if (adjusted || flushed) loops.errors(x.data(), delta.data(), n, unit, error.data());
  if (adjusted || flushed || sizes != input.absolute)
    extent = loops.extent(x.data(), delta.data(), input.absolute, n);
  const bool sink = input.sink != -kInfinity;
  const double m = out->largest = std::max(extent.largest_x, input.sink);
  const double farthest = std::max(std::abs(m), std::abs(extent.largest_x));
  out->least = extent.least_x;
  out->largest_delta = extent.largest_delta;
  // exp2(fma(s, sigma, -mu)) at the maximum is not 1: the rounding error of mu remains.
  const double misplaced = model.may_be_fused ? kU * (farthest + out->largest_delta) * std::numbers::log2e : 0;
  double largest_part = adjusted ? capped.maxCoeff() : 0;
  if (input.alibi) largest_part += AllConst(input.alibi, n).abs().maxCoeff();
  // Products of codes are larger than those of keys if scales are below 1.
  if (overflows(model, extent.largest_size / model.least_key_scale, largest_part, m, extent.least_x == m,
                misplaced))
    return ScoreState::kUnconstrained;
  out->misplaced = std::exp2(misplaced);
  const bool level = input.bias && !sink && !input.alibi;
  out->shift = level && absorbed(model, extent.largest_size, extent.largest_delta, m, extent.least_x) ? m : 0;
  if (out->shift != 0) {
    for (All* zero : {&x, &delta, &error}) zero->setZero();
    out->largest = out->least = out->largest_delta = 0;
  } else {
    other_errors(model, operands, input, *out, error);
  }
  walk_tiles(model, operands.first, input.keys, n, x.data(), error.data(), &out->walk);
  if (sink) ++out->walk.rescales;
  const double T = out->walk.rescales;
  out->sum = loops.exponentials(x.data(), n, out->largest, out->weight.data());
  out->sink_weight = sink ? std::exp(input.sink - m) : 0;
  out->sum += out->sink_weight;
  sum_errors(model, n, sink, farthest, out);
  const double slope = 5 * kU + 2 * model.eps_exp_slope + out->merge_range;
  const double constant = T * (model.eps_exp + 2 * kU) + out->merge_constant;
  out->largest_e = loops.allowances(x.data(), delta.data(), error.data(), n, out->largest, out->largest_delta,
                                    slope, constant, e.data());
  if (sink) {
    const double of_keys =
        model.may_be_fused ? 2 * kU * (std::abs(m) + std::abs(extent.largest_x) + out->largest_delta) : 0;
    out->sink_e =
        5 * kU * std::abs(input.sink) + of_keys + slope * (m - input.sink + out->largest_delta) + constant;
    out->largest_e = std::max(out->largest_e, out->sink_e);
  }
  return ScoreState::kBounded;
}

}  // namespace attnfuzz
