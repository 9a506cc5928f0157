#include "reference/mean_columns.h"

#include <algorithm>
#include <cmath>

#include "reference/row_terms.h"
#include "reference/scatter.h"

namespace attnfuzz {
namespace {

double count_of(const MeanRow& row) { return static_cast<double>(row.keys.size()); }

// Writes one panel of columns. False if a bound is not finite.
bool put_columns(const MeanRow& row, const Values& values, int64_t chunk, const Lanes& mean,
                 const Lanes& bound) {
  const int64_t first = chunk * kLanes, columns = std::min<int64_t>(kLanes, values.columns - first);
  const Lanes stored = row.stored(row.terms, Lanes(mean.abs()), bound);
  std::copy_n(mean.data(), columns, row.o + first);
  std::copy_n(stored.data(), columns, row.o_bound + first);
  // Columns beyond the last have values of 0, and bounds as finite as the others'.
  return (stored * 0.0).sum() == 0;
}

// The sums of one panel of columns of a row whose P is known.
struct alignas(64) KnownSums {
  Lanes tile, prefix, mean, exact, charged, running;
  size_t next = 0;  // of MeanRow::costs
};

// After tile t: G_c grows by g_t of what the accumulator held before it.
void end_tile(const KeyTile& tile, const MeanRow& row, KnownSums* sums) {
  if (sums->next < row.costs.size() && row.costs[sums->next].tile == tile.tile)
    sums->running += row.costs[sums->next++].cost * sums->prefix.abs();
  sums->prefix += sums->tile;
  sums->tile.setZero();
  if (!tile.last) return;
  sums->mean += sums->prefix;
  sums->prefix.setZero();
}

// The error of a long sum of products on a tensor core. Each block errs by
// (k_hw + 2) 2^-23 of its largest term, accumulator included: where V's signs
// cancel the accumulator stays small, and charging sum |w v| for it is far too
// much. `size` is at least sum w(1+rho)|v|, `wrong` at least sum w rho |v|.
//
// Any run of consecutive keys sums to at most 2 max |prefix|, in whichever
// direction the tiles go and wherever splits begin; the computed weights add
// what they are off by, u_P size + wrong.
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

void known_columns(const KeyBlock& block, const Values& values, std::span<MeanRow* const> rows) {
  std::vector<KnownSums> sums(rows.size());
  std::vector<WeightedRow> centre, exact, charged;
  std::vector<KnownShares> shares;
  for (size_t r = 0; r < rows.size(); ++r) {
    centre.push_back({rows[r]->centre.data(), sums[r].tile.data(), nullptr});
    exact.push_back({rows[r]->weight.data(), sums[r].exact.data(), nullptr});
    charged.push_back({rows[r]->charge.data(), sums[r].charged.data(), nullptr});
    const MeanRow& row = *rows[r];
    shares.push_back(
        shares_of_known(row.terms, lost_of_known(row.denominator, row.common), count_of(row), row.l));
  }
  for (int64_t chunk = 0; chunk < values.chunks(); ++chunk) {
    const double* panel = values.panel(chunk);
    for (KnownSums& sum : sums) {
      for (Lanes* lanes : {&sum.tile, &sum.prefix, &sum.mean, &sum.exact, &sum.charged, &sum.running})
        lanes->setZero();
      sum.next = 0;
    }
    for (const KeyTile& tile : block.tiles) {
      const std::span<const KeySpan> spans(&block.tile_spans[tile.begin], tile.end - tile.begin);
      weigh(Term::kValue, panel, spans, centre);
      weigh(Term::kValue, panel, spans, exact);
      weigh(Term::kSize, panel, spans, charged);
      for (size_t r = 0; r < rows.size(); ++r) end_tile(tile, *rows[r], &sums[r]);
    }
    for (size_t r = 0; r < rows.size(); ++r) {
      const KnownSums& sum = sums[r];
      const KnownShares& of = shares[r];
      const Lanes bound =
          ((sum.charged + sum.running) * of.grown + of.of_o * sum.mean.abs() + of.constant) / (1 - of.lost);
      if (!put_columns(*rows[r], values, chunk, sum.mean, bound)) rows[r]->known = false;
      if (!rows[r]->exact) continue;
      const int64_t first = chunk * kLanes;
      std::copy_n(sum.exact.data(), std::min<int64_t>(kLanes, values.columns - first), rows[r]->exact + first);
    }
  }
}

void plain_columns(const KeyBlock& block, const Values& values, std::span<MeanRow* const> rows) {
  std::vector<PlainSums> sums(rows.size());
  std::vector<PlainShares> shares;
  std::vector<WeightedRow> mean, size, distance;
  for (size_t r = 0; r < rows.size(); ++r) {
    MeanRow& row = *rows[r];
    const PlainShares& of =
        shares.emplace_back(shares_of_plain(row.terms, row.rho_w, row.denominator, count_of(row), row.l));
    // (r + s) w (1 + rho) + eta_P / l, of the keys that the row sees.
    if (row.charge.size() < row.weight.size()) row.charge.resize(row.weight.size());
    std::fill_n(row.charge.begin(), block.positions(), 0.0);
    Scatter scatter(row.places.count);
    for (int64_t k = 0; k < row.places.count; ++k) {
      const auto at = static_cast<size_t>(row.places.of(k));
      row.charge[at] = (of.rounding + of.partial) * (row.weight[at] + row.error[at]) + row.terms.p_tiny / row.l;
      scatter.add(row.weight[at], row.charge[at] + row.error[at]);
    }
    row.result.o_scatter = scatter.share();
    mean.push_back({row.weight.data(), sums[r].mean.data(), nullptr});
    size.push_back({row.charge.data(), sums[r].absolute.data(), nullptr});
    distance.push_back({row.error.data(), sums[r].shifted.data(), sums[r].mean.data()});
  }
  for (int64_t chunk = 0; chunk < values.chunks(); ++chunk) {
    const double* panel = values.panel(chunk);
    for (PlainSums& sum : sums)
      for (Lanes* lanes : {&sum.mean, &sum.absolute, &sum.shifted}) lanes->setZero();
    weigh(Term::kValue, panel, block.spans, mean);
    weigh(Term::kSize, panel, block.spans, size);
    weigh(Term::kDistance, panel, block.spans, distance);
    for (size_t r = 0; r < rows.size(); ++r) {
      MeanRow& row = *rows[r];
      const PlainShares& of = shares[r];
      PlainSums& sum = sums[r];
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
