#include "reference/rows/mean_columns.h"

#include <algorithm>
#include <cmath>

#include "reference/rows/row_loops.h"

namespace attnfuzz {
namespace {

double count_of(const MeanRow& row) { return static_cast<double>(row.keys.size()); }

void put(const Lanes& from, int64_t columns, double* to) {
  if (columns == kLanes)
    std::copy_n(from.data(), kLanes, to);  // copied without a call
  else
    std::copy_n(from.data(), columns, to);
}

// Writes one panel of columns. False if a bound is not finite.
bool put_columns(const MeanRow& row, const Values& values, int64_t chunk, const Lanes& mean,
                 const Lanes& bound) {
  const int64_t first = chunk * kLanes, columns = std::min<int64_t>(kLanes, values.columns - first);
  const Lanes stored = row.stored(row.terms, Lanes(mean.abs()), bound);
  put(mean, columns, row.o + first);
  put(stored, columns, row.o_bound + first);
  // Columns beyond the last have values of 0, and finite bounds if the others do.
  return (stored * 0.0).sum() == 0;
}

// The sums of charges times |v|: of rows whose charges are floats, and of the others.
struct Charged {
  std::vector<SizedRow> sized;
  std::vector<WeightedRow> others;

  void add(MeanRow* row, double* sum) {
    if (row->sized_scale > 0)
      sized.push_back({row->charge_sized.data(), sum});
    else
      others.push_back({row->charge.data(), sum, nullptr});
  }
  void weigh_all(const Values& values, int64_t chunk, std::span<const KeySpan> spans) const {
    if (!sized.empty()) weigh_sizes(values.size_panel(chunk), spans, sized);
    if (!others.empty()) weigh(Term::kSize, values.panel(chunk), spans, others);
  }
};
// The value of such a sum.
Lanes charged_sum(const MeanRow& row, const Lanes& sum) {
  return row.sized_scale > 0 ? Lanes(sum * (1 / row.sized_scale)) : sum;
}

// The error of a long sum of products on a tensor core. Each block errs by (k_hw + 2) 2^-23 of its largest
// term, including the accumulator. If V's signs cancel, the accumulator stays small, and charging sum |w v|
// for it would be far too much. `size` is at least sum w(1+rho)|v|, `wrong` at least sum w rho |v|.
//
// Any run of consecutive keys sums to at most 2 max |prefix|, in whichever direction the tiles go and
// wherever splits begin. The computed weights add their error, u_P size + wrong.
Lanes long_products(const KeyBlock& block, const MeanRow& row, const double* panel, const Lanes& size,
                    const Lanes& wrong) {
  const MeanTerms& terms = row.terms;
  Lanes prefix = Lanes::Zero(), most = Lanes::Zero();
  for (const KeySpan& span : block.spans)
    for (int64_t k = 0; k < span.count; ++k) {
      prefix += row.weight[static_cast<size_t>(span.position + k)] * LanesAt(panel + (span.key + k) * kLanes);
      most = most.max(prefix.abs());
    }
  const Lanes plain = (1 + terms.p_unit) * size;
  return terms.mma_gamma * (1 + terms.product_gamma) * plain.min(2 * most + terms.p_unit * size + wrong);
}

struct alignas(64) PlainSums {
  Lanes mean, absolute, shifted;
};

}  // namespace

// Uses floats for charges if no product falls below 2^-126, and 32 products sum to at most 2^127. The
// values' sizes are from 2^-30 to 2^30.
void put_charges(const KeyBlock& block, const Values& values, const double* charge, double least, double most,
                 MeanRow* row) {
  row->sized_scale = 0;
  const bool near = most > 0x1p-600 && most < 0x1p600 && least >= 0x1p-154 * most;
  if (!near || values.sizes.empty()) {
    row->places.spread(charge, block.positions(), &row->charge);
    return;
  }
  const double scale = std::ldexp(1.0, 59 - std::ilogb(most));
  row->sized_scale = scale * values.size_scale;
  const auto positions = static_cast<size_t>(block.positions());
  if (row->charge_sized.size() < positions) row->charge_sized.resize(positions);
  float* to = row->charge_sized.data();
  const KeyPlaces& places = row->places;
  if (places.each.empty()) {
    std::fill_n(to, places.begin, 0.0f);
    row_loops().floats(charge, places.count, scale, to + places.begin);
    std::fill(to + places.begin + places.count, to + positions, 0.0f);
    return;
  }
  std::fill_n(to, positions, 0.0f);
  for (int64_t k = 0; k < places.count; ++k) to[places.of(k)] = static_cast<float>(charge[k] * scale);
}

void known_columns(const KeyBlock& block, const Values& values, std::span<MeanRow* const> rows) {
  std::vector<KnownSums> sums(rows.size());
  std::vector<WeightedRow> centre, exact;
  Charged charged;
  std::vector<KnownShares> shares;
  centre.reserve(rows.size());
  shares.reserve(rows.size());
  charged.sized.reserve(rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    centre.push_back({rows[r]->centre.data(), sums[r].tile.data(), nullptr});
    if (rows[r]->exact) exact.push_back({rows[r]->weight.data(), sums[r].exact.data(), nullptr});
    charged.add(rows[r], sums[r].charged.data());
    const MeanRow& row = *rows[r];
    shares.push_back(
        shares_of_known(row.terms, lost_of_known(row.denominator, row.common), count_of(row), row.l));
  }
  // g_t by tile and row; 0 if a row sees no key of a tile.
  std::vector<double> costs(block.tiles.size() * rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    auto cost = rows[r]->costs.begin();
    for (size_t t = 0; t < block.tiles.size() && cost != rows[r]->costs.end(); ++t)
      if (cost->tile == block.tiles[t].tile) costs[t * rows.size() + r] = cost++->cost;
  }
  for (int64_t chunk = 0; chunk < values.chunks(); ++chunk) {
    const double* panel = values.panel(chunk);
    for (KnownSums& sum : sums)
      for (Lanes* lanes : {&sum.tile, &sum.prefix, &sum.mean, &sum.exact, &sum.charged, &sum.running})
        lanes->setZero();
    for (size_t t = 0; t < block.tiles.size(); ++t) {
      const KeyTile& tile = block.tiles[t];
      weigh(Term::kValue, panel, std::span(&block.tile_spans[tile.begin], tile.end - tile.begin), centre);
      end_tiles(sums, &costs[t * rows.size()], tile.last);
    }
    if (!exact.empty()) weigh(Term::kValue, panel, block.spans, exact);
    charged.weigh_all(values, chunk, block.spans);
    for (size_t r = 0; r < rows.size(); ++r) {
      const KnownSums& sum = sums[r];
      const KnownShares& of = shares[r];
      const Lanes charge = charged_sum(*rows[r], sum.charged) + sum.running;
      const Lanes bound = (charge * of.grown + of.of_o * sum.mean.abs() + of.constant) * (1 / (1 - of.lost));
      if (!put_columns(*rows[r], values, chunk, sum.mean, bound)) rows[r]->known = false;
      if (!rows[r]->exact) continue;
      const int64_t first = chunk * kLanes;
      put(sum.exact, std::min<int64_t>(kLanes, values.columns - first), rows[r]->exact + first);
    }
  }
}

void plain_columns(const KeyBlock& block, const Values& values, std::span<MeanRow* const> rows) {
  std::vector<PlainSums> sums(rows.size());
  std::vector<PlainShares> shares;
  std::vector<WeightedRow> mean, distance;
  Buffer charge, of_weight, of_error;
  Charged size;
  shares.reserve(rows.size());
  mean.reserve(rows.size());
  distance.reserve(rows.size());
  size.sized.reserve(rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    MeanRow& row = *rows[r];
    const PlainShares& of =
        shares.emplace_back(shares_of_plain(row.terms, row.rho_w, row.denominator, count_of(row), row.l));
    // (r + s) w (1 + rho) + h_j, for the keys that the row sees.
    const int64_t n = row.places.count;
    for (Buffer* buffer : {&charge, &of_weight, &of_error})
      if (static_cast<int64_t>(buffer->size()) < n) buffer->resize(static_cast<size_t>(n));
    const double* weight = row.places.gather(row.weight.data(), &of_weight);
    const double* error = row.places.gather(row.error.data(), &of_error);
    double least = kInfinity, most = 0;
    for (int64_t k = 0; k < n; ++k) {
      charge[k] = of.charge(weight[k] + error[k]);
      least = std::min(least, charge[k]);
      most = std::max(most, charge[k]);
    }
    put_charges(block, values, charge.data(), least, most, &row);
    for (int64_t k = 0; k < n; ++k) charge[k] += error[k];
    scatter_errors(weight, error, charge.data(), &row);
    mean.push_back({row.weight.data(), sums[r].mean.data(), nullptr});
    size.add(&row, sums[r].absolute.data());
    distance.push_back({row.error.data(), sums[r].shifted.data(), sums[r].mean.data()});
  }
  for (int64_t chunk = 0; chunk < values.chunks(); ++chunk) {
    const double* panel = values.panel(chunk);
    for (PlainSums& sum : sums)
      for (Lanes* lanes : {&sum.mean, &sum.absolute, &sum.shifted}) lanes->setZero();
    weigh(Term::kValue, panel, block.spans, mean);
    size.weigh_all(values, chunk, block.spans);
    weigh(Term::kDistance, panel, block.spans, distance);
    for (size_t r = 0; r < rows.size(); ++r) {
      MeanRow& row = *rows[r];
      const PlainShares& of = shares[r];
      PlainSums& sum = sums[r];
      sum.absolute = charged_sum(row, sum.absolute);
      if (of.long_row) {
        const Lanes all = sum.absolute / (of.rounding + of.partial);
        sum.absolute += long_products(block, row, panel, all, sum.shifted + row.rho_w * sum.mean.abs());
      }
      const Lanes bound =
          (sum.shifted + sum.absolute + of.of_o * sum.mean.abs() + of.constant) / row.denominator;
      if (!put_columns(row, values, chunk, sum.mean, bound)) row.result.informative = false;
    }
  }
}

}  // namespace attnfuzz
