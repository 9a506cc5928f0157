#include "reference/weighted_mean.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/error_model.h"

namespace attnfuzz {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr int64_t kLongRow = 4096;

using All = Eigen::Map<Eigen::ArrayXd>;
using AllConst = Eigen::Map<const Eigen::ArrayXd>;

// e^(M C) - 1: a factor common to the whole of O, from the LSE that partials are weighed by.
double merge_growth(const MeanTerms& terms, double lam, double largest_e) {
  if (terms.merge_steps == 0) return 0;
  const double ln_s = std::log(terms.merged);
  return std::expm1(terms.merge_steps * (3 * kU * (std::abs(lam) + largest_e) + terms.eps_log * (1 + ln_s) +
                                         2 * kU * ln_s + gamma(terms.merged + 3, kU) + 2 * terms.eps_exp));
}

// What all columns of a row share of the way from B' to B_c.
struct Stored {
  double merge;    // merge_growth()
  double flushed;  // what flushed weights of partials may take away

  double operator()(const MeanTerms& terms, double o, double bound) const {
    bound += merge * (o + bound);
    const double normalise = std::max(4 * kU, terms.eps_reciprocal + 2 * kU);
    bound += normalise * (o + bound) + flushed;
    return bound + terms.o_unit * (o + bound) + terms.o_tiny;
  }
};

// The weight of a partial, relative to all, may flush, once or (one by one) once a merge.
double flushed_partials(const MeanTerms& terms, const int64_t* keys, int64_t n, const Values& values) {
  if (terms.merged == 0) return 0;
  double most = values.largest;
  // Of what is hidden nothing is known to be small: look where it would be charged.
  if (most > 0x1p40) {
    most = 0;
    for (int64_t chunk = 0; chunk < values.chunks(); ++chunk)
      for (int64_t k = 0; k < n; ++k)
        most = std::max(most, LanesAt(values.panel(chunk) + keys[k] * kLanes).abs().maxCoeff());
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

// What V's subnormals may be misaligned by, and those of V that meet those of P.
double aligned_values(const MeanTerms& terms, double count, double l) {
  return terms.aligned_tiny * (1 + count * terms.least_factor / l);
}

// min and max over the keys, widened by everything but the scores' error.
void hull(const MeanTerms& terms, const Stored& stored, const int64_t* keys, int64_t n, const Values& values,
          double* o, double* o_bound) {
  const double spread = (1 + terms.p_unit) * (1 + terms.v_unit) * (1 + terms.product_gamma) *
                            (1 + terms.mma_gamma) / (1 - terms.sum_gamma) * (1 + terms.partial_unit) -
                        1;
  for (int64_t chunk = 0; chunk < values.chunks(); ++chunk) {
    const double* panel = values.panel(chunk);
    Lanes low = Lanes::Constant(kInfinity), high = -low;
    for (int64_t k = 0; k < n; ++k) {
      const LanesAt v(panel + keys[k] * kLanes);
      low = low.min(v);
      high = high.max(v);
    }
    for (int64_t lane = 0; lane < std::min<int64_t>(kLanes, values.columns - chunk * kLanes); ++lane) {
      const double most = std::max(std::abs(low[lane]), std::abs(high[lane]));
      const double count = static_cast<double>(n);
      const double pad = spread * most + terms.hull_tiny * count * most + terms.partial_tiny + terms.v_tiny +
                         aligned_values(terms, count, 1);
      const double middle = low[lane] / 2 + high[lane] / 2;
      const double half = high[lane] / 2 - low[lane] / 2;
      const int64_t c = chunk * kLanes + lane;
      o[c] = middle;
      // Rounding acts on the value, which lies anywhere in the hull: charge the largest.
      o_bound[c] = spread >= 0 ? half + stored(terms, most, pad) : kInfinity;
    }
  }
}

// sum_j e^(x_j - m) |v_jc| at or above 2^127 may have overflowed on the way, sooner where
// a fused scale misplaces the weights; and so may a partial kept in 16 bits, or V itself.
bool mark_overflow(const MeanTerms& terms, const int64_t* keys, int64_t n, const Values& values,
                   const double* weight, double l, double grown, double* o_bound, uint8_t* column) {
  bool any = false;
  for (int64_t chunk = 0; chunk < values.chunks(); ++chunk) {
    Lanes sum = Lanes::Zero(), most = Lanes::Zero();
    for (int64_t k = 0; k < n; ++k) {
      const Lanes size = LanesAt(values.panel(chunk) + keys[k] * kLanes).abs();
      sum += weight[k] * size;
      most = most.max(size);
    }
    for (int64_t lane = 0; lane < std::min<int64_t>(kLanes, values.columns - chunk * kLanes); ++lane) {
      const bool partial = terms.partial_overflow > 0 && most[lane] * grown >= terms.partial_overflow;
      const bool value = terms.v_overflow > 0 && most[lane] >= terms.v_overflow;
      if (sum[lane] * l * terms.misplaced < kOverflow && !partial && !value) continue;
      any = true;
      o_bound[chunk * kLanes + lane] = kInfinity;
      column[chunk * kLanes + lane] = static_cast<uint8_t>(Due::kAnything);
    }
  }
  return any;
}

// The error of a long sum of products on a tensor core. Each block errs by
// (k_hw + 2) 2^-23 of its largest term, accumulator included: where V's signs
// cancel the accumulator stays small, and charging sum |w v| for it is far too
// much. `size` is at least sum w(1+rho)|v|, `wrong` at least sum w rho |v|.
//
// Any run of consecutive keys sums to at most 2 max |prefix|, in whichever
// direction the tiles go and wherever splits begin; the computed weights add
// what they are off by, u_P size + wrong.
Lanes long_products(const MeanTerms& terms, const int64_t* keys, int64_t n, const double* panel,
                    const double* weight, const Lanes& size, const Lanes& wrong) {
  Lanes prefix = Lanes::Zero(), most = Lanes::Zero();
  for (int64_t k = 0; k < n; ++k) {
    prefix += weight[k] * LanesAt(panel + keys[k] * kLanes);
    most = most.max(prefix.abs());
  }
  const Lanes plain = (1 + terms.p_unit) * size;
  return terms.mma_gamma * (1 + terms.product_gamma) * plain.min(2 * most + terms.p_unit * size + wrong);
}

// The two hot loops, apart so that their accumulators stay in registers.
[[gnu::noinline]] void mean_and_size(const int64_t* keys, int64_t n, const double* panel, const double* weight,
                                     const double* coefficient, Lanes* mean_out, Lanes* size_out) {
  Lanes mean = Lanes::Zero(), size = Lanes::Zero();
  for (int64_t k = 0; k < n; ++k) {
    const LanesAt v(panel + keys[k] * kLanes);
    mean += weight[k] * v;
    size += coefficient[k] * v.abs();
  }
  *mean_out = mean;
  *size_out = size;
}

[[gnu::noinline]] void distance(const int64_t* keys, int64_t n, const double* panel, const double* error,
                                const Lanes& mean_in, Lanes* distance_out) {
  const Lanes mean = mean_in;
  Lanes sum = Lanes::Zero();
  for (int64_t k = 0; k < n; ++k) sum += error[k] * (LanesAt(panel + keys[k] * kLanes) - mean).abs();
  *distance_out = sum;
}

struct RowSums {
  double l, rho_w, denominator;
  Stored stored;
};

double of_sum(const MeanTerms& terms, const RowSums& row, double count) {
  const double tiny = terms.rounded_sum ? terms.p_tiny : kFlush;
  return terms.sum_gamma * (1 + row.rho_w) + tiny * count / row.l;
}

double constant_of(const MeanTerms& terms, const RowSums& row, double count) {
  return (count + 2 * terms.rescales) * kFlush / row.l + terms.partial_tiny + terms.v_tiny +
         aligned_values(terms, count, row.l);
}

// O and its bound, a panel of columns at a time. False if a bound is not finite.
bool bound_columns(const MeanTerms& terms, const RowSums& row, const int64_t* keys, int64_t n,
                   const Values& values, MeanWork* work, double* o, double* o_bound) {
  const double count = static_cast<double>(n);
  // For long rows the tensor core's share is bounded apart, by long_products().
  const bool long_row = terms.consecutive && n > kLongRow;
  const double rounding = (1 + terms.p_unit) * (1 + terms.v_unit) * (1 + terms.product_gamma) *
                              (1 + (long_row ? 0 : terms.mma_gamma)) -
                          1;
  // A partial kept in 16 bits is rounded once more: u_O |o_s| is at most u_O of its |w v| terms.
  const double partial = terms.partial_unit * (1 + rounding) / row.denominator;
  const double of_o = of_sum(terms, row, count);
  const double constant = constant_of(terms, row, count);
  const All weights(work->weight.data(), n), error(work->error.data(), n);
  All(work->coefficient.data(), n) = (rounding + partial) * (weights + error) + terms.p_tiny / row.l;
  const double* weight = work->weight.data();
  const double* errors = work->error.data();
  const double* coefficient = work->coefficient.data();

  bool finite = true;
  for (int64_t chunk = 0; chunk < values.chunks(); ++chunk) {
    const double* panel = values.panel(chunk);
    Lanes mean, absolute, shifted;
    mean_and_size(keys, n, panel, weight, coefficient, &mean, &absolute);
    distance(keys, n, panel, errors, mean, &shifted);
    if (long_row) {
      const Lanes size = absolute / (rounding + partial);
      absolute += long_products(terms, keys, n, panel, weight, size, shifted + row.rho_w * mean.abs());
    }
    const Lanes bound = (shifted + absolute + of_o * mean.abs() + constant) / row.denominator;
    for (int64_t lane = 0; lane < std::min<int64_t>(kLanes, values.columns - chunk * kLanes); ++lane) {
      const int64_t c = chunk * kLanes + lane;
      o[c] = mean[lane];
      o_bound[c] = row.stored(terms, std::abs(mean[lane]), bound[lane]);
      finite = finite && std::isfinite(o_bound[c]);
    }
  }
  return finite;
}

// One panel of the weighted values, tile after tile: their sum, the sum of what is charged,
// and G_c.
struct Ordered {
  Lanes mean, charged, running, exact;
};
[[gnu::noinline]] void ordered_sums(const MeanTerms& terms, const int64_t* keys, const double* panel,
                                    const double* centre, const double* charge, const double* weight,
                                    Ordered* out) {
  Lanes mean = Lanes::Zero(), charged = mean, running = mean, prefix = mean, exact = mean;
  const std::vector<TileRun>& runs = terms.walk->runs;
  for (size_t r = 0; r < runs.size(); ++r) {
    Lanes sum = Lanes::Zero(), size = sum;
    for (int64_t k = runs[r].begin; k < runs[r].end; ++k) {
      const LanesAt v(panel + keys[k] * kLanes);
      const Lanes absolute = v.abs();
      sum += centre[k] * v;
      size += centre[k] * absolute;
      charged += charge[k] * absolute;
      exact += weight[k] * v;
    }
    running += terms.tile_cost[r] * (prefix.abs() + size);
    prefix += sum;
    if (!runs[r].last) continue;
    mean += prefix;
    prefix = Lanes::Zero();
  }
  out->mean = mean;
  out->charged = charged;
  out->running = running;
  out->exact = exact;
}

// The same where P is known. work->coefficient: all that is charged of |v_jc|.
bool bound_known(const MeanTerms& terms, const RowSums& row, const int64_t* keys, int64_t n,
                 const Values& values, MeanWork* work, double* o, double* o_bound, double* exact) {
  const double count = static_cast<double>(n);
  const double lost = 1 - row.denominator + terms.rounded->common * (2 - row.denominator);
  if (!(lost < 1) || !(terms.tile_costs < 0.5)) return false;
  const double grown = 1 + 2 * terms.tile_costs / (1 - terms.tile_costs);
  const double merges = gamma(2 * std::max(terms.merged, 1.0) + 3, kU);
  const double relative = terms.v_unit + merges + terms.partial_unit * (1 + terms.mma_gamma) / (1 - lost);
  const double tiny = (2 * kFlush * terms.misplaced * terms.grown_by_delta + terms.aligned_tiny) / row.l;
  const Eigen::Map<const Eigen::ArrayXd> centre(terms.rounded->centre.data(), n),
      charge(terms.rounded->charge.data(), n);
  All(work->coefficient.data(), n) = charge + relative * (centre + charge) + tiny;
  const double of_o = lost + kFlush * count / row.l, constant = constant_of(terms, row, count);

  bool finite = true;
  for (int64_t chunk = 0; chunk < values.chunks(); ++chunk) {
    Ordered sums;
    ordered_sums(terms, keys, values.panel(chunk), centre.data(), work->coefficient.data(), work->weight.data(),
                 &sums);
    const Lanes bound =
        ((sums.charged + sums.running) * grown + of_o * sums.mean.abs() + constant) / (1 - lost);
    for (int64_t lane = 0; lane < std::min<int64_t>(kLanes, values.columns - chunk * kLanes); ++lane) {
      const int64_t c = chunk * kLanes + lane;
      o[c] = sums.mean[lane];
      if (exact) exact[c] = sums.exact[lane];
      o_bound[c] = row.stored(terms, std::abs(sums.mean[lane]), bound[lane]);
      finite = finite && std::isfinite(o_bound[c]);
    }
  }
  return finite;
}

}  // namespace

MeanResult weighted_mean(const MeanTerms& terms, const int64_t* keys, int64_t n, const double* x,
                         const double* e, const double* given, const Values& values, MeanWork* work, double* o,
                         double* o_bound, uint8_t* column, double* exact) {
  const size_t size = static_cast<size_t>(n);
  if (work->weight.size() < size) {
    work->weight.resize(size);
    work->error.resize(size);
    work->coefficient.resize(size);
  }
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
  const All error(work->error.data(), n);
  const double rho_w = error.sum();
  const double tiny = terms.rounded_sum ? terms.p_tiny * count / l : 0;
  const double lost = rho_w + terms.sum_gamma * (1 + rho_w) + tiny;
  const double denominator = 1 - lost;

  const Stored stored{merge_growth(terms, lam, largest_e), flushed_partials(terms, keys, n, values)};
  MeanResult result;
  result.lse = lam;
  result.informative = denominator > 0 && std::isfinite(rho_w) && std::isfinite(terms.product_gamma) &&
                       std::isfinite(terms.mma_gamma);
  if (result.informative) {
    result.lse_bound = -std::log1p(-lost) + 3 * kU * std::abs(m) + terms.eps_log * (1 + std::log(l)) +
                       2 * kU * std::log(l) + 3 * kU * std::abs(lam);
    const RowSums row{l, rho_w, denominator, stored};
    const bool known = terms.rounded && terms.rounded->total_charge < terms.p_unit + rho_w &&
                       bound_known(terms, row, keys, n, values, work, o, o_bound, exact);
    if (known) exact = nullptr;
    result.informative = known || bound_columns(terms, row, keys, n, values, work, o, o_bound);
  }
  if (!result.informative) {
    result.lse_bound = kInfinity;
    hull(terms, stored, keys, n, values, o, o_bound);
  }
  if (exact) std::copy_n(o, values.columns, exact);
  // By what a partial may exceed the largest of its values.
  const double grown = (1 + terms.p_unit) * (1 + terms.v_unit) * (1 + terms.product_gamma) *
                       (1 + terms.mma_gamma) / std::max(1 - terms.sum_gamma, 0.5);
  const double nearly = std::min(terms.partial_overflow > 0 ? terms.partial_overflow / (2 * grown) : kInfinity,
                                 terms.v_overflow > 0 ? terms.v_overflow : kInfinity);
  if (count * values.largest * terms.misplaced >= kOverflow / 2 || values.largest >= nearly)
    result.unconstrained_column = mark_overflow(terms, keys, n, values, weight, l, grown, o_bound, column);
  return result;
}

}  // namespace attnfuzz
