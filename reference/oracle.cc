#include "reference/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/formats.h"
#include "reference/operands.h"
#include "reference/rounded_p.h"
#include "reference/scores.h"
#include "reference/visibility.h"
#include "reference/weighted_mean.h"

namespace attnfuzz {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Reference empty_reference(const attn_problem& problem, const ErrorModel& model) {
  Reference out;
  out.rows = RowSpace(problem).count();
  out.state.assign(static_cast<size_t>(out.rows), RowState::kSkipped);
  for (const TensorId tensor : {TensorId::kO, TensorId::kLse}) {
    Expected& expected = out.outputs.emplace_back();
    expected.tensor = tensor;
    expected.columns = shape_of(spec_of(tensor), problem)[3];
    expected.logarithm = tensor == TensorId::kLse;
    const auto elements = static_cast<size_t>(out.rows * expected.columns);
    expected.value.assign(elements, expected.logarithm ? -kInfinity : 0);
    expected.bound.assign(elements, 0);
    expected.rule.assign(elements, static_cast<uint8_t>(Due::kAnything));
  }
  // The rule asks for |o| + B'' >= threshold; its bound is B'' after rounding to
  // O's format, so the threshold takes the same step.
  out[TensorId::kO].overflow = model.overflow * (1 + model.o_unit) + model.o_tiny;
  if (model.p_predicted != ATTN_NONE) out[TensorId::kO].exact = out[TensorId::kO].value;
  out.assumptions = model.assumptions;
  return out;
}

// g_t of each tile, in order: what its products may add to the accumulator's error. Returns their sum.
double tile_costs(const ErrorModel& model, const TileWalk& walk, const int64_t* keys, int64_t first,
                  std::vector<double>* costs) {
  double sum = 0;
  costs->clear();
  for (const TileRun& run : walk.runs) {
    int64_t blocks = 0, previous = -1;
    for (int64_t k = run.begin; k < run.end; ++k) {
      const int64_t block = (first + keys[k]) % model.tile_k / model.mma_block;
      blocks += block != previous;
      previous = block;
    }
    const double products = static_cast<double>(run.end - run.begin);
    costs->push_back(products * model.product_unit + static_cast<double>(blocks) * model.sum_unit);
    sum += costs->back();
  }
  return sum;
}

MeanTerms mean_terms(const ErrorModel& model, const RowScores& scores, const std::vector<double>& costs,
                     double all_costs) {
  MeanTerms terms;
  const double T = scores.walk.rescales;
  const double splits = static_cast<double>(model.splits);
  const bool merged = model.splits > 1;
  terms.eps_exp = terms.eps_weight = model.eps_exp;
  terms.sum_gamma = scores.sum_gamma + (merged ? gamma(splits + 3, kU) : 0);
  terms.product_gamma = gamma(2 * T + 2 * splits + 3, kU);
  terms.mma_gamma = compound(all_costs);
  terms.consecutive = model.tensor_cores && model.key_order != ATTN_KEYS_ANY;
  terms.p_unit = model.p_unit;
  terms.v_unit = model.v_unit;
  terms.v_tiny = model.v_tiny;
  terms.v_overflow = model.v_overflow;
  terms.least_factor = model.least_factor;
  terms.aligned_tiny = model.block_error(16) * model.least_factor;
  terms.misplaced = scores.misplaced;
  terms.grown_by_delta = std::exp(scores.largest_delta);
  // alpha, O * alpha and the exponential itself may each flush a weight.
  terms.hull_tiny = (std::max(model.p_tiny, kFlush) + kFlush) * scores.misplaced + terms.aligned_tiny;
  terms.p_tiny = terms.hull_tiny * terms.grown_by_delta;
  if (model.rounded_sum) {
    terms.rounded_sum = true;
    terms.eps_weight = (1 + model.eps_exp) * (1 + model.p_unit) - 1;
    terms.p_unit = 0;
  }
  terms.rescales = T;
  terms.eps_log = model.eps_log;
  terms.eps_reciprocal = model.eps_reciprocal;
  terms.o_unit = model.o_unit;
  terms.o_tiny = model.o_tiny;
  terms.partial_unit = model.partial_unit;
  terms.partial_tiny = model.partial_tiny;
  terms.partial_overflow = model.partial_overflow;
  terms.merged = merged ? splits : 0;
  terms.merge_steps = model.merge_steps;
  terms.walk = &scores.walk;
  terms.tile_cost = costs.data();
  terms.tile_costs = all_costs;
  return terms;
}

// One row at a time, with scratch that lives across rows.
class Evaluator {
 public:
  Evaluator(const attn_problem& problem, const attn_tensors& tensors, const ErrorModel& model, int64_t first,
            int64_t last)
      : problem_(problem),
        tensors_(tensors),
        model_(model),
        first_(first),
        last_(last),
        q_(static_cast<size_t>(problem.dim_qk)),
        out_(empty_reference(problem, model)) {}

  void row(int64_t row) {
    const auto [b, h, i] = RowSpace(problem_).at(row);
    load_group(b, h / (problem_.heads_q / problem_.heads_kv));
    ++out_.sampled;
    row_keys(problem_, tensors_, b, h, i, first_, last_, &keys_);
    if (keys_.empty()) {
      out_.state[static_cast<size_t>(row)] = RowState::kDead;
      ++out_.dead;
      o_.fill_row(row, Due::kNumber, 0, 0);
      lse_.fill_row(row, Due::kNumber, -kInfinity, 0);
      return;
    }
    load_bias(b, h, i);
    for (int64_t& key : keys_) key -= operands_.first;
    decode_strided(problem_.dtype, tensors_.q.data, offset_of(tensors_.q, b, h, i, 0), tensors_.q.stride[3],
                   problem_.dim_qk, q_.data());
    const int64_t n = static_cast<int64_t>(keys_.size());
    const ScoreInput input{q_.data(), purity_of(q_.data(), problem_.dim_qk), keys_.data(), n,
                           bias_.empty() ? nullptr : bias_.data()};
    switch (row_scores(model_, operands_, input, &scores_)) {
      case ScoreState::kNaN:
        return fill(row, RowState::kNaN, Due::kMustBeNaN);
      case ScoreState::kUnconstrained:
        ++out_.unconstrained;
        return fill(row, RowState::kUnconstrained, Due::kAnything);
      case ScoreState::kBounded:
        return bounded(row, n);
    }
  }

  Reference take() { return std::move(out_); }

 private:
  void load_group(int64_t b, int64_t g) {
    if (b == b_ && g == g_) return;
    b_ = b;
    g_ = g;
    operands_ =
        load_operands(problem_, tensors_, b, g, first_, std::min(last_, key_length(problem_, tensors_, b)));
  }

  void load_bias(int64_t b, int64_t h, int64_t i) {
    if (problem_.bias_dtype == ATTN_NONE) return;
    bias_.resize(keys_.size());
    for (size_t k = 0; k < keys_.size(); ++k)
      bias_[k] = decode(problem_.bias_dtype, tensors_.bias.data, offset_of(tensors_.bias, b, h, i, keys_[k]));
  }

  void fill(int64_t row, RowState state, Due column) {
    out_.state[static_cast<size_t>(row)] = state;
    for (Expected& output : out_.outputs) output.fill_row(row, column, 0, kInfinity);
  }

  void bounded(int64_t row, int64_t n) {
    const double all_costs = tile_costs(model_, scores_.walk, keys_.data(), operands_.first, &costs_);
    MeanTerms terms = mean_terms(model_, scores_, costs_, all_costs);
    const Eigen::Map<const Eigen::ArrayXd> x(scores_.x.data(), n), weight(scores_.weight.data(), n);
    if (model_.in_order() && round_p(model_, scores_, n, x.maxCoeff(), weight.sum(), &rounded_))
      terms.rounded = &rounded_;
    o_.fill_row(row, Due::kNumber, 0, 0);
    const auto at = static_cast<size_t>(row * o_.columns);
    const MeanResult result = weighted_mean(
        terms, keys_.data(), n, scores_.x.data(), scores_.e.data(), scores_.weight.data(), operands_.values,
        &work_, &o_.value[at], &o_.bound[at], &o_.rule[at], o_.exact.empty() ? nullptr : &o_.exact[at]);
    lse_.fill_row(row, Due::kNumber, result.lse, result.lse_bound);
    out_.state[static_cast<size_t>(row)] = result.informative ? RowState::kBounded : RowState::kUninformative;
    out_.uninformative += !result.informative;
    const bool anything = mark_blemishes(row) || result.unconstrained_column;
    out_.unconstrained += anything;
  }

  // Values that are not finite; true if a visible infinity left a column unconstrained.
  bool mark_blemishes(int64_t row) {
    const std::vector<Blemish>& blemishes = operands_.values.blemish;
    bool anything = false;
    size_t next = 0;
    for (const Blemish& blemish : blemishes) {
      while (next < keys_.size() && keys_[next] < blemish.key) ++next;
      const bool visible = next < keys_.size() && keys_[next] == blemish.key;
      if (!visible && model_.isolates_masked_nan) continue;
      const auto at = static_cast<size_t>(row * o_.columns + blemish.column);
      if (o_.rule[at] == static_cast<uint8_t>(Due::kMustBeNaN)) continue;
      const bool must = visible && blemish.nan;
      o_.rule[at] = static_cast<uint8_t>(must ? Due::kMustBeNaN : Due::kAnything);
      o_.bound[at] = kInfinity;
      anything = anything || (visible && !must);
    }
    return anything;
  }

  const attn_problem& problem_;
  const attn_tensors& tensors_;
  const ErrorModel& model_;
  const int64_t first_, last_;
  int64_t b_ = -1, g_ = -1;
  Operands operands_;
  std::vector<int64_t> keys_;
  std::vector<double> q_, bias_;
  RowScores scores_;
  MeanWork work_;
  RoundedP rounded_;
  std::vector<double> costs_;
  Reference out_;
  Expected& o_ = out_[TensorId::kO];
  Expected& lse_ = out_[TensorId::kLse];
};

}  // namespace

Reference evaluate_keys(const attn_problem& problem, const attn_tensors& host, const ErrorModel& model,
                        const std::vector<int64_t>& rows, int64_t first, int64_t last) {
  Evaluator evaluator(problem, host, model, first, last);
  for (const int64_t row : rows) evaluator.row(row);
  return evaluator.take();
}

Reference evaluate(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                   const Calibration& calibration, RowSample sample) {
  return evaluate_keys(problem, host, make_error_model(problem, plan, calibration),
                       sampled_rows(problem, plan.tile_q, sample), 0, problem.seq_k);
}

}  // namespace attnfuzz
