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

}  // namespace

bool round_p(const ErrorModel& model, const RowScores& scores, int64_t n, double largest, double sum,
             RoundedP* out) {
  if (model.p_predicted == ATTN_NONE || !(model.eps_exp < 0.0625)) return false;
  const auto size = static_cast<size_t>(n);
  if (out->centre.size() < size) out->centre.resize(size), out->charge.resize(size);
  const TileWalk& walk = scores.walk;
  const Rounding rounded = rounding_of(model.p_predicted);
  const double per_range = 5 * kU + model.eps_exp_slope, scale = model.p_scale;
  const double exact = model.eps_exp + (scale != 1 ? kU : 0) + 0x1p-46;
  const bool merged = model.splits > 1;
  out->total_charge = 0;
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
    const double phi = std::expm1(y), factor = std::exp(run.max - largest) / sum;
    if (!(phi < 1)) return false;
    // The weights are e^(x - m) already; where that lost digits it is done anew.
    const double grown = largest - run.max < 300 ? std::exp(largest - run.max) : 0;
    for (int64_t k = run.begin; k < run.end; ++k) {
      const auto at = static_cast<size_t>(k);
      const double off = scores.error[at] + run.uncertain, range = run.max - scores.x[at];
      // The scores were summed up in double: they are off by some 2^-50 of their size themselves.
      const double h =
          off + per_range * (range + off) + exact +
          0x1p-48 * (std::abs(scores.x[at]) + std::abs(run.max) + std::abs(model.scale) * scores.absolute[at]);
      if (!(h < 0.125)) return false;
      const double weight = scores.weight[at];
      const double p = (grown > 0 && weight > 0x1p-500 ? weight * grown : std::exp(-range)) * scale;
      double low = p * (1 - h);
      const double high = p * (1 + h + h * h);
      low = low < kFlush * std::max(scale, 1.0) ? 0 : low;
      const double below = rounded(low), above = rounded(high);
      const double middle = (below + above) / (2 * scale), half = (above - below) / (2 * scale);
      out->centre[at] = factor * middle;
      out->charge[at] = factor * (half + phi * (middle + half));
      out->total_charge += out->charge[at];
    }
  }
  return true;
}

}  // namespace attnfuzz
