#include "reference/rows/rounded_p.h"

#include <cmath>

#include "reference/rows/row_loops.h"

namespace attnfuzz {
namespace {

// If a score lies this far below the row's maximum m, weights e^(x - m) may have lost digits. Scaling them to a
// tile's maximum would not bring the digits back, so the weights are computed anew.
constexpr double kFar = 300;

// e^x - 1, where x is mostly 0.
double growth(double x) { return x == 0 ? 0 : std::expm1(x); }

}  // namespace

bool round_p(const ErrorModel& model, const RowScores& scores, int64_t n, RoundedP* out) {
  if (!p_is_predicted(model)) return false;
  const auto size = static_cast<size_t>(n);
  if (out->charge.size() < size) out->charge.resize(size), out->anew.resize(size);
  const RowLoops& loops = row_loops();
  const double largest = scores.largest;
  const bool far = !(largest - scores.least < kFar);
  const TileWalk& walk = scores.walk;
  const bool merged = model.splits > 1;
  out->common = merged ? 0 : std::expm1(walk.runs.back().uncertain);
  for (size_t r = 0; r < walk.runs.size(); ++r) {
    const TileRun& run = walk.runs[r];
    const double y = uncertain_factor(model, run.uncertain + walk.split_uncertain[r], run.rescales,
                                      walk.split_max[r] - run.max, scores.merge_constant, scores.merge_range,
                                      largest - walk.split_max[r] + 2 * walk.largest_error);
    const double below = largest - run.max, phi = growth(y);
    const double factor = (below == 0 ? 1 : std::exp(-below)) / scores.sum;
    if (!(phi < 1)) return false;
    const int64_t at = run.begin, count = run.end - run.begin;
    const double* weight = scores.weight.data() + at;
    if (far) {
      loops.exponentials(scores.x.data() + at, count, run.max, out->anew.data());
      weight = out->anew.data();
    }
    const double grown = far || below == 0 ? 1 : std::exp(below);
    if (!loops.round_tile({model, run.max, run.uncertain, factor, phi}, weight, grown, scores.x.data() + at,
                          scores.error.data() + at, scores.absolute + at, count, out->centre + at,
                          out->charge.data() + at))
      return false;
  }
  out->total_charge = loops.sum(out->charge.data(), n);
  return true;
}

}  // namespace attnfuzz
