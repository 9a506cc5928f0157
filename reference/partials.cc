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

// Merged one by one, what a weight goes through it goes through at every merge.
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

}  // namespace

PartialReference evaluate_partials(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                                   const Calibration& calibration, int64_t split, RowSample sample) {
  PartialReference out;
  out.split = split;
  // A plan of one split may leave its length open: it holds everything.
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
  // An evaluation of no row at all has the right shape.
  Reference out = evaluate_keys(problem, {}, model, {}, 0, 0);
  Expected &to_o = out[TensorId::kO], &to_lse = out[TensorId::kLse];
  const int64_t columns = to_o.columns;
  std::vector<double> x, e, weight, values;
  std::vector<int64_t> index;
  MeanWork work;
  MeanRow mean;
  KeyBlock block;
  for (int64_t row = 0; row < out.rows; ++row) {
    const auto at = static_cast<size_t>(row);
    x.clear();
    values.clear();
    bool nan = false, infinite = false;
    for (int64_t s = 0; s < num_splits; ++s) {
      const double score = lse[s * out.rows + row];
      if (score == -kInfinity) continue;
      nan = nan || std::isnan(score);
      infinite = infinite || std::isinf(score);
      x.push_back(score);
      const float* from = o + (s * out.rows + row) * columns;
      values.insert(values.end(), from, from + columns);
    }
    ++out.sampled;
    if (x.empty()) {
      out.state[at] = RowState::kDead;
      ++out.dead;
      to_o.fill_row(row, Due::kNumber, 0, 0);
      to_lse.fill_row(row, model.any_dead_lse ? Due::kAnything : Due::kNumber, model.dead_lse, 0);
      continue;
    }
    if (nan || infinite) {
      out.state[at] = nan ? RowState::kNaN : RowState::kUnconstrained;
      out.unconstrained += !nan;
      for (Expected& output : out.outputs)
        output.fill_row(row, nan ? Due::kMustBeNaN : Due::kAnything, 0, kInfinity);
      continue;
    }
    const int64_t n = static_cast<int64_t>(x.size());
    const double splits = static_cast<double>(n);
    reduce_allowances(model, x, splits, &e);
    for (int64_t s = static_cast<int64_t>(index.size()); s < n; ++s) index.push_back(s);
    to_o.fill_row(row, Due::kNumber, 0, 0);
    const Values partials = make_values(values.data(), n, columns, columns);
    const auto first = static_cast<size_t>(row * columns);
    mean.terms = reduce_terms(model, splits);
    mean.keys = std::span<const int64_t>(index).first(x.size());
    mean.o = &to_o.value[first], mean.o_bound = &to_o.bound[first], mean.rule = &to_o.rule[first];
    if (block.positions() < n || block.spans[0].count != n) make_key_block({}, 0, n, {{mean.keys}}, &block);
    block.place(mean.keys, &mean.places);
    const double largest = std::ranges::max(x);
    weight.resize(x.size());
    row_loops().exponentials(x.data(), n, largest, weight.data());
    const MeanInput input = {x.data(),           e.data(), weight.data(), largest, row_loops().sum(weight.data(), n),
                             std::ranges::max(e)};
    begin_mean(block, partials, input, nullptr, &work, &mean);
    finish_means(block, partials, {{&mean}});
    const MeanResult& result = mean.result;
    to_lse.fill_row(row, Due::kNumber, result.lse / model.log_unit, result.lse_bound / model.log_unit);
    out.state[at] = result.informative ? RowState::kBounded : RowState::kUninformative;
    out.uninformative += !result.informative;
    bool anything = result.unconstrained_column;
    for (const NonFinite& one : partials.non_finite) {
      auto& rule = to_o.rule[first + static_cast<size_t>(one.column)];
      if (one.nan)
        rule = static_cast<uint8_t>(Due::kMustBeNaN);
      else if (rule != static_cast<uint8_t>(Due::kMustBeNaN))
        rule = static_cast<uint8_t>(Due::kAnything);
      anything = anything || !one.nan;
    }
    out.unconstrained += anything;
  }
  return out;
}

}  // namespace attnfuzz
