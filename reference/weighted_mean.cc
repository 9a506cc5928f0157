#include "reference/weighted_mean.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/error_model.h"
#include "reference/mean_columns.h"
#include "reference/scatter.h"

namespace attnfuzz {
namespace {

using All = Eigen::Map<Eigen::ArrayXd>;
using AllConst = Eigen::Map<const Eigen::ArrayXd>;

// The weight of a partial, relative to all, may flush, once or (one by one) once a merge.
double flushed_partials(const MeanTerms& terms, std::span<const int64_t> keys, const Values& values) {
  if (terms.merged == 0) return 0;
  double most = values.largest;
  // Of what is hidden nothing is known to be small: look where it would be charged.
  if (most > 0x1p40) {
    most = 0;
    for (int64_t chunk = 0; chunk < values.chunks(); ++chunk)
      for (const int64_t key : keys)
        most = std::max(most, LanesAt(values.panel(chunk) + key * kLanes).abs().maxCoeff());
  }
  return 2 * terms.merged * kFlush * most;
}

// work->error = w_j rho_j. Small allowances by a series that is never below
// e^x - 1; large ones by exp itself, where 0 * infinity must not arise.
void weight_errors(const MeanTerms& terms, int64_t n, const double* x, const double* e, double lam,
                   double largest_e, MeanWork* work) {
  All error(work->error.data(), n);
  const AllConst weight(work->weight.data(), n);
  const AllConst allowance(e, n);
  if (largest_e <= 0.125) {
    error = allowance * (1 + allowance * (0.5 + allowance * (1.0 / 6 + allowance / 23)));
    error = weight * (error + terms.eps_weight * (1 + error));
    return;
  }
  for (int64_t k = 0; k < n; ++k)
    error[k] = std::max(0.0, std::exp(x[k] - lam + e[k]) * (1 + terms.eps_weight) - weight[k]);
}

// min and max over the keys, widened by everything but the scores' error.
void hull(const MeanRow& row, const Values& values) {
  const MeanTerms& terms = row.terms;
  for (int64_t chunk = 0; chunk < values.chunks(); ++chunk) {
    const double* panel = values.panel(chunk);
    Lanes low = Lanes::Constant(kInfinity), high = -low;
    for (const int64_t key : row.keys) {
      const LanesAt v(panel + key * kLanes);
      low = low.min(v);
      high = high.max(v);
    }
    for (int64_t lane = 0; lane < std::min<int64_t>(kLanes, values.columns - chunk * kLanes); ++lane) {
      const double most = std::max(std::abs(low[lane]), std::abs(high[lane]));
      const double count = static_cast<double>(row.keys.size());
      const double middle = low[lane] / 2 + high[lane] / 2;
      const double half = high[lane] / 2 - low[lane] / 2;
      const int64_t c = chunk * kLanes + lane;
      row.o[c] = middle;
      row.o_bound[c] = hull_bound(terms, row.stored, half, most, count);
    }
  }
}

// sum_j e^(x_j - m) |v_jc| at or above 2^127 may have overflowed on the way, sooner where
// a fused scale misplaces the weights; and so may a partial kept in 16 bits, or V itself.
bool mark_overflow(const Values& values, double grown, const MeanRow& row) {
  const MeanTerms& terms = row.terms;
  bool any = false;
  for (int64_t chunk = 0; chunk < values.chunks(); ++chunk) {
    Lanes sum = Lanes::Zero(), most = Lanes::Zero();
    for (int64_t k = 0; k < row.places.count; ++k) {
      const Lanes size = LanesAt(values.panel(chunk) + row.keys[static_cast<size_t>(k)] * kLanes).abs();
      sum += row.weight[static_cast<size_t>(row.places.of(k))] * size;
      most = most.max(size);
    }
    for (int64_t lane = 0; lane < std::min<int64_t>(kLanes, values.columns - chunk * kLanes); ++lane) {
      if (!column_overflows(terms, grown, row.l, sum[lane], most[lane])) continue;
      any = true;
      row.o_bound[chunk * kLanes + lane] = kInfinity;
      row.rule[chunk * kLanes + lane] = static_cast<uint8_t>(Due::kAnything);
    }
  }
  return any;
}

// All that is charged of |v_jc| where P is known. False if too little is left to charge it with.
bool charge_known(const KeyBlock& block, const RoundedP& rounded, MeanWork* work, MeanRow* row) {
  const MeanTerms& terms = row->terms;
  const auto n = static_cast<int64_t>(row->keys.size());
  row->common = rounded.common;
  const double lost = lost_of_known(row->denominator, row->common);
  if (!(lost < 1) || !(terms.tile_costs < 0.5)) return false;
  const auto [relative, tiny] = charges_of_known(terms, lost, row->l);
  const AllConst centre(rounded.centre.data(), n), charge(rounded.charge.data(), n);
  All all(work->charge.data(), n);
  all = charge + relative * (centre + charge) + tiny;
  for (const TileCost& tile : row->costs) {
    const int64_t size = tile.end - tile.begin;
    all.segment(tile.begin, size) += tile.cost * centre.segment(tile.begin, size);
  }
  row->result.o_scatter = scatter_of(work->weight.data(), work->charge.data(), n);
  row->places.spread(rounded.centre.data(), block.positions(), &row->centre);
  row->places.spread(work->charge.data(), block.positions(), &row->charge);
  return true;
}

}  // namespace

void begin_mean(const KeyBlock& block, const Values& values, const double* x, const double* e,
                const double* given, const RoundedP* rounded, MeanWork* work, MeanRow* row) {
  const MeanTerms& terms = row->terms;
  const auto n = static_cast<int64_t>(row->keys.size());
  for (Buffer* buffer : {&work->weight, &work->error, &work->charge})
    if (buffer->size() < row->keys.size()) buffer->resize(row->keys.size());
  const AllConst scores(x, n);
  const double m = scores.maxCoeff(), count = static_cast<double>(n);
  double* weight = work->weight.data();
  for (int64_t k = 0; k < n; ++k) weight[k] = given ? given[k] : std::exp(x[k] - m);
  All weights(weight, n);
  const double l = weights.sum();
  const double lam = m + std::log(l);
  weights *= 1 / l;

  const double largest_e = AllConst(e, n).maxCoeff();
  weight_errors(terms, n, x, e, lam, largest_e, work);
  const double rho_w = All(work->error.data(), n).sum();
  const double lost = lost_of(terms, rho_w, count, l);

  row->l = l;
  row->rho_w = rho_w;
  row->denominator = 1 - lost;
  row->stored = {merge_growth(terms, lam, largest_e), flushed_partials(terms, row->keys, values)};
  MeanResult& result = row->result;
  result = {};
  result.lse = lam;
  result.lse_bound = kInfinity;
  result.informative = row->denominator > 0 && std::isfinite(rho_w) && std::isfinite(terms.product_gamma) &&
                       std::isfinite(terms.mma_gamma);
  row->known = false;
  row->places.spread(weight, block.positions(), &row->weight);
  if (!result.informative) return;
  result.lse_bound = lse_bound_of(terms, lost, m, l, lam);
  result.lse_scatter = scatter_of(weight, work->error.data(), n);
  row->places.spread(work->error.data(), block.positions(), &row->error);
  row->known =
      rounded && rounded->total_charge < terms.p_unit + rho_w && charge_known(block, *rounded, work, row);
}

void finish_means(const KeyBlock& block, const Values& values, std::span<MeanRow* const> rows) {
  std::vector<MeanRow*> known, plain;
  for (MeanRow* row : rows)
    if (row->known) known.push_back(row);
  if (!known.empty()) known_columns(block, values, known);
  for (MeanRow* row : rows)
    if (row->result.informative && !row->known) plain.push_back(row);
  if (!plain.empty()) plain_columns(block, values, plain);
  for (MeanRow* row : rows) {
    const MeanTerms& terms = row->terms;
    const double count = static_cast<double>(row->keys.size());
    if (!row->result.informative) {
      row->result.lse_bound = kInfinity;
      hull(*row, values);
    }
    if (row->exact && !row->known) std::copy_n(row->o, values.columns, row->exact);
    const double grown = partial_growth(terms);
    if (may_overflow(terms, grown, count, values.largest))
      row->result.unconstrained_column = mark_overflow(values, grown, *row);
  }
}

}  // namespace attnfuzz
