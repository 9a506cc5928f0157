#include "reference/rows/weighted_mean.h"

#include <algorithm>
#include <cmath>

#include "reference/rows/scatter.h"
#include "reference/model/error_model.h"
#include "reference/rows/mean_columns.h"
#include "reference/rows/row_loops.h"

namespace attnfuzz {
namespace {

using All = Eigen::Map<Eigen::ArrayXd>;
using AllConst = Eigen::Map<const Eigen::ArrayXd>;

// A partial's relative weight may flush, once, or once for each merge if merged one by one.
double flushed_partials(const MeanTerms& terms, std::span<const int64_t> keys, const Values& values) {
  if (terms.merged == 0) return 0;
  double most = values.largest;
  // Hidden values may be large, so only charged ones are examined.
  if (most > 0x1p40) {
    most = 0;
    for (int64_t chunk = 0; chunk < values.chunks(); ++chunk)
      for (const int64_t key : keys)
        most = std::max(most, LanesAt(values.panel(chunk) + key * kLanes).abs().maxCoeff());
  }
  return 2 * terms.merged * kFlush * most;
}

// w_j and w_j rho_j; returns the sum of the latter. Large allowances use exp itself and must avoid 0 *
// infinity.
double weight_errors(const MeanTerms& terms, const MeanInput& input, int64_t n, double lam, Buffer* scratch,
                     double* weight, double* error) {
  const RowLoops& loops = row_loops();
  const double rho_w = loops.weigh(input.weight, input.e, n, input.sum, terms.eps_weight, weight, error);
  if (input.largest_e <= 0.125) return rho_w;
  All exponent(scratch->data(), n), errors(error, n);
  exponent = AllConst(input.x, n) - lam + AllConst(input.e, n);
  loops.exponentials(scratch->data(), n, 0, error);
  errors = (errors * (1 + terms.eps_weight) - AllConst(weight, n)).max(0.0);
  return loops.sum(error, n);
}

// w_s rho_s.
double sink_error(const MeanTerms& terms, const MeanInput& input, double lam) {
  if (!input.has_sink) return 0;
  return sink_error_of(input.sink_weight / input.sum, input.sink - lam, input.sink_e, terms.eps_weight);
}

// min and max over the keys, and 0 if there is a sink, widened by everything but the scores' error.
void hull(const MeanRow& row, const Values& values) {
  const MeanTerms& terms = row.terms;
  for (int64_t chunk = 0; chunk < values.chunks(); ++chunk) {
    const double* panel = values.panel(chunk);
    Lanes low = Lanes::Constant(row.has_sink ? 0 : kInfinity), high = -low;
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

// A sum_j e^(x_j - m) |v_jc| of 2^127 or more may have overflowed on the way, even sooner if a fused scale
// misplaces the weights. A partial in 16 bits, or V itself, may overflow, too.
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

// Everything that is charged for |v_jc| if P is known. False if the denominator is too small.
bool charge_known(const KeyBlock& block, const Values& values, const RoundedP& rounded, const double* weight,
                  const double* error, MeanWork* work, MeanRow* row) {
  const MeanTerms& terms = row->terms;
  row->common = rounded.common;
  const double lost = lost_of_known(row->denominator, row->common);
  if (!(lost < 1) || !(terms.tile_costs < 0.5)) return false;
  const auto [relative, tiny] = charges_of_known(terms, lost, row->l);
  double* all = work->charge.data();
  double least = kInfinity, most = 0;
  for (const TileCost& tile : row->costs)
    row_loops().charges(rounded.centre + tile.begin, rounded.charge.data() + tile.begin, tile.end - tile.begin,
                        relative, tiny, tile.cost, all + tile.begin, &least, &most);
  row->places.spread(rounded.centre, block.positions(), &row->centre);
  put_charges(block, values, all, least, most, row);
  scatter_errors(weight, error, all, row);
  return true;
}

}  // namespace

void scatter_errors(const double* weight, const double* error, const double* charge, MeanRow* row) {
  if (row->has_sink) return;  // the sink's error may exceed all others, so little cancels
  const auto n = static_cast<int64_t>(row->keys.size());
  Scatter<2> scatter(n);
  scatter.add(weight, {error, charge}, n);
  const auto shares = scatter.shares();
  row->result.lse_scatter = shares[0];
  row->result.o_scatter = shares[1];
}

void begin_mean(const KeyBlock& block, const Values& values, const MeanInput& input, const RoundedP* rounded,
                MeanWork* work, MeanRow* row) {
  const MeanTerms& terms = row->terms;
  const auto n = static_cast<int64_t>(row->keys.size());
  if (work->charge.size() < row->keys.size()) work->charge.resize(row->keys.size());
  const double m = input.largest, l = input.sum, count = static_cast<double>(n);
  const double lam = m + std::log(l);
  double* weight = row->places.place_for(block.positions(), &row->weight, &work->weight);
  double* error = row->places.place_for(block.positions(), &row->error, &work->error);
  row->has_sink = input.has_sink;
  row->terms.sink_error = sink_error(terms, input, lam);
  const double rho_w = weight_errors(terms, input, n, lam, &work->charge, weight, error) + terms.sink_error;
  const double lost = lost_of(terms, rho_w, count, l);

  row->l = l;
  row->rho_w = rho_w;
  row->denominator = 1 - lost;
  row->stored = {merge_growth(terms, lam, input.largest_e, lost), flushed_partials(terms, row->keys, values)};
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
  row->places.spread(error, block.positions(), &row->error);
  row->known = rounded && rounded->total_charge < terms.p_unit + rho_w &&
               charge_known(block, values, *rounded, weight, error, work, row);
}

void finish_means(const KeyBlock& block, const Values& values, std::span<MeanRow* const> rows) {
  std::vector<MeanRow*> known, plain;
  known.reserve(rows.size());
  plain.reserve(rows.size());
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
