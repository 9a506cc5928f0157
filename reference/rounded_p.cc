#include "reference/rounded_p.h"

#include <bit>
#include <cmath>

namespace attnfuzz {
namespace {

// To nearest, ties to even, of numbers that are not negative: in a format of `kept`
// significant bits whose subnormals are multiples of 2^quantum.
struct Rounding {
  int dropped;    // bits of a double's fraction
  double normal;  // from here on numbers are normal
  double magic;   // adding it leaves a multiple of 2^quantum

  double operator()(double x) const {
    const uint64_t bits = std::bit_cast<uint64_t>(x);
    const uint64_t half = (uint64_t{1} << (dropped - 1)) - 1 + (bits >> dropped & 1);
    const double normal_result = std::bit_cast<double>((bits + half) & ~((uint64_t{1} << dropped) - 1));
    return x >= normal ? normal_result : (x + magic) - magic;
  }
};

Rounding rounding_of(int32_t dtype) {
  if (dtype == ATTN_F16) return {52 - 10, 0x1p-14, 1.5 * 0x1p28};
  return {52 - 7, 0x1p-126, 1.5 * 0x1p-81};
}

// p_j times P's scale. The weights are e^(x - m) already; where that lost digits it is done anew.
void tile_weights(const RowScores& scores, const TileRun& run, double largest, double scale, double* p) {
  constexpr double kLeast = 0x1p-500;
  const double grown = largest - run.max < 300 ? std::exp(largest - run.max) : 0;
  const double *x = scores.x.data(), *weight = scores.weight.data();
  for (int64_t k = run.begin; k < run.end; ++k) p[k] = weight[k] * grown * scale;
  for (int64_t k = run.begin; k < run.end; ++k)
    if (!(grown > 0 && weight[k] > kLeast)) p[k] = std::exp(-(run.max - x[k])) * scale;
}

// What all keys of a tile share.
struct TileFactors {
  double factor;  // A_t / l
  double phi;
};

// Rounds the p_j in out->centre. False if one is too uncertain. No branches: all keys of a tile at once.
bool round_tile(const ErrorModel& model, const RowScores& scores, const TileRun& run, const TileFactors& tile,
                const Rounding& rounding, RoundedP* out) {
  const Rounding rounded = rounding;
  const double scale = model.p_scale, per_range = 5 * kU + model.eps_exp_slope;
  const double exact = model.eps_exp + (scale != 1 ? kU : 0) + 0x1p-46;
  const double tau = std::abs(model.scale), max = run.max, uncertain = run.uncertain;
  const double flushed = kFlush * std::max(scale, 1.0), twice = 2 * scale;
  const double factor = tile.factor, phi = tile.phi;
  const double *x = scores.x.data(), *error = scores.error.data(), *absolute = scores.absolute;
  double *centre = out->centre.data(), *charge = out->charge.data();
  int64_t bad = 0;
  for (int64_t k = run.begin; k < run.end; ++k) {
    const double off = error[k] + uncertain, range = max - x[k], p = centre[k];
    // The scores were summed up in double: they are off by some 2^-50 of their size themselves.
    const double h = off + per_range * (range + off) + exact +
                     0x1p-48 * (std::abs(x[k]) + std::abs(max) + tau * absolute[k]);
    bad |= !(h < 0.125);
    const double low = p * (1 - h), high = p * (1 + h + h * h);
    const double below = rounded(low < flushed ? 0 : low), above = rounded(high);
    const double middle = (below + above) / twice, half = (above - below) / twice;
    centre[k] = factor * middle;
    charge[k] = factor * (half + phi * (middle + half));
  }
  return bad == 0;
}

}  // namespace

bool round_p(const ErrorModel& model, const RowScores& scores, int64_t n, double largest, double sum,
             RoundedP* out) {
  if (model.p_predicted == ATTN_NONE || !(model.eps_exp < 0.0625)) return false;
  const auto size = static_cast<size_t>(n);
  if (out->centre.size() < size) out->centre.resize(size), out->charge.resize(size);
  const TileWalk& walk = scores.walk;
  const Rounding rounded = rounding_of(model.p_predicted);
  const double per_range = 5 * kU + model.eps_exp_slope, scale = model.p_scale;
  const bool merged = model.splits > 1;
  out->common = merged ? 0 : std::expm1(walk.runs.back().uncertain);
  for (size_t r = 0; r < walk.runs.size(); ++r) {
    const TileRun& run = walk.runs[r];
    double y = 0;
    if (merged || run.rescales > 0) {
      const double off = run.uncertain + walk.split_uncertain[r];
      y = off + run.rescales * (model.eps_exp + 2 * kU) + per_range * (walk.split_max[r] - run.max + off);
    }
    if (merged)
      y +=
          scores.merge_constant + scores.merge_range * (largest - walk.split_max[r] + 2 * scores.largest_error);
    // From here on relative to the row's maximum and sum.
    const double phi = std::expm1(y), factor = std::exp(run.max - largest) / sum;
    if (!(phi < 1)) return false;
    tile_weights(scores, run, largest, scale, out->centre.data());
    if (!round_tile(model, scores, run, {factor, phi}, rounded, out)) return false;
  }
  out->total_charge = Eigen::Map<const Eigen::ArrayXd>(out->charge.data(), n).sum();
  return true;
}

}  // namespace attnfuzz
