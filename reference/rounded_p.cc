#include "reference/rounded_p.h"

#include <cmath>

#include "reference/row_terms.h"

namespace attnfuzz {
namespace {

// p_j times P's scale. The weights are e^(x - m) already; where that lost digits it is done anew.
void tile_weights(const RowScores& scores, const TileRun& run, double largest, double scale, double* p) {
  constexpr double kLeast = 0x1p-500;
  const double grown = largest - run.max < 300 ? std::exp(largest - run.max) : 0;
  const double *x = scores.x.data(), *weight = scores.weight.data();
  for (int64_t k = run.begin; k < run.end; ++k) p[k] = weight[k] * grown * scale;
  for (int64_t k = run.begin; k < run.end; ++k)
    if (!(grown > 0 && weight[k] > kLeast)) p[k] = std::exp(-(run.max - x[k])) * scale;
}

// Rounds the p_j in out->centre. False if one is too uncertain. No branches: all keys of a tile at once.
bool round_tile(const RowScores& scores, const TileRun& run, const KeyRounding& tile, RoundedP* out) {
  const KeyRounding of = tile;
  const double *x = scores.x.data(), *error = scores.error.data(), *absolute = scores.absolute;
  double *centre = out->centre.data(), *charge = out->charge.data();
  int64_t bad = 0;
  for (int64_t k = run.begin; k < run.end; ++k) {
    const RoundedKey key = round_key(of, centre[k], x[k], error[k], absolute[k]);
    bad |= key.bad;
    centre[k] = key.centre;
    charge[k] = key.charge;
  }
  return bad == 0;
}

}  // namespace

bool round_p(const ErrorModel& model, const RowScores& scores, int64_t n, double largest, double sum,
             RoundedP* out) {
  if (!p_is_predicted(model)) return false;
  const auto size = static_cast<size_t>(n);
  if (out->centre.size() < size) out->centre.resize(size), out->charge.resize(size);
  const TileWalk& walk = scores.walk;
  const double scale = model.p_scale;
  const bool merged = model.splits > 1;
  out->common = merged ? 0 : std::expm1(walk.runs.back().uncertain);
  for (size_t r = 0; r < walk.runs.size(); ++r) {
    const TileRun& run = walk.runs[r];
    const double y = uncertain_factor(model, run.uncertain + walk.split_uncertain[r], run.rescales,
                                      walk.split_max[r] - run.max, scores.merge_constant, scores.merge_range,
                                      largest - walk.split_max[r] + 2 * scores.largest_error);
    // From here on relative to the row's maximum and sum.
    const double phi = std::expm1(y), factor = std::exp(run.max - largest) / sum;
    if (!(phi < 1)) return false;
    tile_weights(scores, run, largest, scale, out->centre.data());
    if (!round_tile(scores, run, {model, run.max, run.uncertain, factor, phi}, out)) return false;
  }
  out->total_charge = Eigen::Map<const Eigen::ArrayXd>(out->charge.data(), n).sum();
  return true;
}

}  // namespace attnfuzz
