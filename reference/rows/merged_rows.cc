#include "reference/rows/merged_rows.h"

#include <algorithm>
#include <cmath>

#include "reference/rows/row_loops.h"

namespace attnfuzz {
namespace {

// True if an infinity among the values leaves a column without a bound.
bool mark_non_finite(const Values& values, uint8_t* rules) {
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

}  // namespace

MergedRows::MergedRows(const ErrorModel& model, Reference* out) : model_(model), out_(*out) {}

void MergedRows::begin(int64_t row) {
  row_ = row;
  x_.clear();
  values_.clear();
}

double* MergedRows::add_side(double lse) {
  const auto columns = static_cast<size_t>(out_[TensorId::kO].columns);
  x_.push_back(lse);
  values_.resize(values_.size() + columns);
  return values_.data() + values_.size() - columns;
}

void MergedRows::end() {
  const auto at = static_cast<size_t>(row_);
  Expected &to_o = out_[TensorId::kO], &to_lse = out_[TensorId::kLse];
  const bool nan = std::ranges::any_of(x_, [](double x) { return std::isnan(x); });
  ++out_.sampled;
  if (x_.empty()) {
    out_.state[at] = RowState::kDead;
    ++out_.dead;
    to_o.fill_row(row_, Due::kNumber, 0, 0);
    to_lse.fill_row(row_, model_.any_dead_lse ? Due::kAnything : Due::kNumber, model_.dead_lse, 0);
  } else if (nan || std::ranges::any_of(x_, [](double x) { return std::isinf(x); })) {
    out_.state[at] = nan ? RowState::kNaN : RowState::kUnconstrained;
    out_.unconstrained += !nan;
    for (Expected& output : out_.outputs)
      output.fill_row(row_, nan ? Due::kMustBeNaN : Due::kAnything, 0, kInfinity);
  } else {
    bound_numbers();
  }
}

void MergedRows::bound_numbers() {
  Expected &to_o = out_[TensorId::kO], &to_lse = out_[TensorId::kLse];
  const int64_t columns = to_o.columns, n = static_cast<int64_t>(x_.size());
  const double sides = static_cast<double>(n);
  const double largest = std::ranges::max(x_);
  e_.clear();
  for (const double x : x_) e_.push_back(merge_allowance(model_, x, largest, sides));
  for (int64_t s = static_cast<int64_t>(index_.size()); s < n; ++s) index_.push_back(s);
  to_o.fill_row(row_, Due::kNumber, 0, 0);
  const Values values = make_values(values_.data(), n, columns, columns);
  const auto first = static_cast<size_t>(row_ * columns);
  mean_.terms = merged_terms(model_, sides);
  mean_.keys = std::span<const int64_t>(index_).first(x_.size());
  mean_.o = &to_o.value[first], mean_.o_bound = &to_o.bound[first], mean_.rule = &to_o.rule[first];
  if (block_.positions() < n || block_.spans[0].count != n) make_key_block({}, 0, n, {{mean_.keys}}, &block_);
  block_.place(mean_.keys, &mean_.places);
  weight_.resize(x_.size());
  row_loops().exponentials(x_.data(), n, largest, weight_.data());
  const MeanInput input = {
      x_.data(), e_.data(), weight_.data(), largest, row_loops().sum(weight_.data(), n), std::ranges::max(e_)};
  begin_mean(block_, values, input, nullptr, &work_, &mean_);
  finish_means(block_, values, {{&mean_}});
  const MeanResult& result = mean_.result;
  to_lse.fill_row(row_, Due::kNumber, result.lse / model_.log_unit, result.lse_bound / model_.log_unit);
  out_.state[static_cast<size_t>(row_)] = result.informative ? RowState::kBounded : RowState::kUninformative;
  out_.uninformative += !result.informative;
  out_.unconstrained += mark_non_finite(values, &to_o.rule[first]) || result.unconstrained_column;
}

}  // namespace attnfuzz
