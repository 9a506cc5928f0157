#include "reference/partials.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/rows/operands.h"
#include "reference/rows/row_loops.h"
#include "reference/rows/weighted_mean.h"

namespace attnfuzz {
namespace {

MeanTerms reduce_terms(const ErrorModel& model, double splits) {
  MeanTerms terms;
  terms.eps_exp = terms.eps_weight = model.eps_exp;
  terms.sum_gamma = terms.product_gamma = gamma(splits + 3, kU);
  // Weights relative to the largest are divided by their sum; others are relative to that sum already.
  terms.p_tiny = terms.hull_tiny = 2 * kFlush * (model.merge_steps > 0 ? splits : 1);
  terms.merged = splits;
  terms.merge_steps = std::min(model.merge_steps, splits);
  terms.rescales = splits;
  terms.eps_log = model.eps_log;
  terms.eps_reciprocal = model.eps_reciprocal;
  terms.o_unit = model.o_unit;
  terms.o_tiny = model.o_tiny;
  return terms;
}

// If splits are merged one by one, a weight is rounded again at every merge.
void reduce_allowances(const ErrorModel& model, const std::vector<double>& x, double splits,
                       std::vector<double>* e) {
  const double most = *std::max_element(x.begin(), x.end()), slope = model.eps_exp_slope;
  const double rounds = std::min(model.merge_rounds, splits);
  e->resize(x.size());
  for (size_t s = 0; s < x.size(); ++s) {
    const double range = most - x[s];
    (*e)[s] = (5 * kU + 2 * slope) * range + splits * (model.eps_exp + 2 * kU) + 2 * model.eps_exp +
              rounds * 2 * kU * (std::abs(x[s]) + std::abs(most));
  }
}

// One row's partials: the scores (LSE) and values of those splits that saw a key.
struct Partials {
  std::vector<double> x, values;
  bool nan = false, infinite = false;

  void read(const float* o, const float* lse, int64_t num_splits, int64_t rows, int64_t row, int64_t columns) {
    x.clear();
    values.clear();
    nan = infinite = false;
    for (int64_t s = 0; s < num_splits; ++s) {
      const double score = lse[s * rows + row];
      if (score == -kInfinity) continue;
      nan = nan || std::isnan(score);
      infinite = infinite || std::isinf(score);
      x.push_back(score);
      const float* from = o + (s * rows + row) * columns;
      values.insert(values.end(), from, from + columns);
    }
  }
};

// Bounds the rows of a reduction one by one. Buffers are kept from row to row.
class Reducer {
 public:
  Reducer(const ErrorModel& model, Reference* out) : model_(model), out_(*out) {}

  void bound(int64_t row, const Partials& partials) {
    const auto at = static_cast<size_t>(row);
    Expected &to_o = out_[TensorId::kO], &to_lse = out_[TensorId::kLse];
    ++out_.sampled;
    if (partials.x.empty()) {
      out_.state[at] = RowState::kDead;
      ++out_.dead;
      to_o.fill_row(row, Due::kNumber, 0, 0);
      to_lse.fill_row(row, model_.any_dead_lse ? Due::kAnything : Due::kNumber, model_.dead_lse, 0);
    } else if (partials.nan || partials.infinite) {
      out_.state[at] = partials.nan ? RowState::kNaN : RowState::kUnconstrained;
      out_.unconstrained += !partials.nan;
      for (Expected& output : out_.outputs)
        output.fill_row(row, partials.nan ? Due::kMustBeNaN : Due::kAnything, 0, kInfinity);
    } else {
      bound_numbers(row, partials);
    }
  }

 private:
  void bound_numbers(int64_t row, const Partials& partials) {
    Expected &to_o = out_[TensorId::kO], &to_lse = out_[TensorId::kLse];
    const std::vector<double>& x = partials.x;
    const int64_t columns = to_o.columns, n = static_cast<int64_t>(x.size());
    const double splits = static_cast<double>(n);
    reduce_allowances(model_, x, splits, &e_);
    for (int64_t s = static_cast<int64_t>(index_.size()); s < n; ++s) index_.push_back(s);
    to_o.fill_row(row, Due::kNumber, 0, 0);
    const Values values = make_values(partials.values.data(), n, columns, columns);
    const auto first = static_cast<size_t>(row * columns);
    mean_.terms = reduce_terms(model_, splits);
    mean_.keys = std::span<const int64_t>(index_).first(x.size());
    mean_.o = &to_o.value[first], mean_.o_bound = &to_o.bound[first], mean_.rule = &to_o.rule[first];
    if (block_.positions() < n || block_.spans[0].count != n) make_key_block({}, 0, n, {{mean_.keys}}, &block_);
    block_.place(mean_.keys, &mean_.places);
    const double largest = std::ranges::max(x);
    weight_.resize(x.size());
    row_loops().exponentials(x.data(), n, largest, weight_.data());
    const MeanInput input = {
        x.data(), e_.data(), weight_.data(), largest, row_loops().sum(weight_.data(), n), std::ranges::max(e_)};
    begin_mean(block_, values, input, nullptr, &work_, &mean_);
    finish_means(block_, values, {{&mean_}});
    const MeanResult& result = mean_.result;
    to_lse.fill_row(row, Due::kNumber, result.lse / model_.log_unit, result.lse_bound / model_.log_unit);
    out_.state[static_cast<size_t>(row)] = result.informative ? RowState::kBounded : RowState::kUninformative;
    out_.uninformative += !result.informative;
    out_.unconstrained += mark_non_finite(values, &to_o.rule[first]) || result.unconstrained_column;
  }

  // True if an infinity among the values leaves a column without a bound.
  static bool mark_non_finite(const Values& values, uint8_t* rules) {
    bool anything = false;
    for (const NonFinite& one : values.non_finite) {
      auto& rule = rules[one.column];
      if (one.nan)
        rule = static_cast<uint8_t>(Due::kMustBeNaN);
      else if (rule != static_cast<uint8_t>(Due::kMustBeNaN))
        rule = static_cast<uint8_t>(Due::kAnything);
      anything = anything || !one.nan;
    }
    return anything;
  }

  const ErrorModel& model_;
  Reference& out_;
  std::vector<double> e_, weight_;
  std::vector<int64_t> index_;
  MeanWork work_;
  MeanRow mean_;
  KeyBlock block_;
};

}  // namespace

PartialReference evaluate_partials(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                                   const Calibration& calibration, int64_t split, RowSample sample) {
  PartialReference out;
  out.split = split;
  // A plan with one split may leave its length open; the split then has all keys.
  const bool whole = plan.tile_k <= 0 || plan.split_tiles <= 0;
  const int64_t length = whole ? problem.seq_k : plan.split_tiles * plan.tile_k;
  out.first_key = split == 0 ? 0 : std::min(problem.seq_k, split * length);
  out.last_key = std::min(problem.seq_k, out.first_key + length);
  out.reference = evaluate_keys(problem, host, partial_error_model(problem, plan, calibration),
                                sampled_rows(problem, plan.tile_q, sample), out.first_key, out.last_key);
  return out;
}

Reference bound_reduce(const attn_problem& problem, const attn_plan& plan, const Calibration& calibration,
                       int64_t num_splits, const float* o, const float* lse) {
  const ErrorModel model = make_error_model(problem, plan, calibration);
  // Evaluating no row gives a result of the right shape.
  Reference out = evaluate_keys(problem, {}, model, {}, 0, 0);
  Partials partials;
  Reducer reducer(model, &out);
  for (int64_t row = 0; row < out.rows; ++row) {
    partials.read(o, lse, num_splits, out.rows, row, out[TensorId::kO].columns);
    reducer.bound(row, partials);
  }
  return out;
}

}  // namespace attnfuzz
