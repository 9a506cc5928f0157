#include "reference/partials.h"

#include <algorithm>

#include "reference/model/error_cap.h"
#include "reference/rows/merged_rows.h"
#include "reference/rows/sinks.h"

namespace attnfuzz {

PartialReference evaluate_partials(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                                   const Calibration& calibration, int64_t split, RowSample sample) {
  PartialReference out;
  out.split = split;
  // A plan with one split may leave its length open; the split then has all keys.
  const bool whole = plan.tile_k <= 0 || plan.split_tiles <= 0;
  const int64_t length = whole ? problem.seq_k : plan.split_tiles * plan.tile_k;
  out.first_key = split == 0 ? 0 : std::min(problem.seq_k, split * length);
  out.last_key = std::min(problem.seq_k, out.first_key + length);
  out.reference = evaluate_keys(without_sinks(problem), host, partial_error_model(problem, plan, calibration),
                                sampled_rows(problem, host, plan.tile_q, sample), out.first_key, out.last_key);
  return out;
}

namespace {

Reference merge_splits(const attn_problem& problem, const ErrorModel& model, int64_t num_splits, const float* o,
                       const float* lse, const attn_tensors& host) {
  // Evaluating no row gives a result of the right shape.
  Reference out = evaluate_keys(problem, {}, model, {}, 0, 0);
  const int64_t columns = out[TensorId::kO].columns;
  MergedRows merged(model, &out);
  for (int64_t row = 0; row < out.rows; ++row) {
    merged.begin(row);
    for (int64_t s = 0; s < num_splits; ++s) {
      const float score = lse[s * out.rows + row];
      if (score == -kInfinity) continue;
      std::copy_n(o + (s * out.rows + row) * columns, columns, merged.add_side(score));
    }
    const double sink = sink_of(problem, host, RowSpace(problem).at(row).h);
    if (sink != -kInfinity) std::fill_n(merged.add_side(sink), columns, 0.0);
    merged.end();
  }
  return out;
}

}  // namespace

Reference bound_reduce(const attn_problem& problem, const attn_plan& plan, const Calibration& calibration,
                       int64_t num_splits, const float* o, const float* lse, const attn_tensors& host) {
  const ErrorModel model = make_error_model(problem, plan, calibration);
  Reference out = merge_splits(problem, model, num_splits, o, lse, host);
  if (problem.has_sink && capped_plan(problem, plan, calibration).lse_sink) {
    Reference apart = merge_splits(without_sinks(problem), model, num_splits, o, lse, host);
    charge_sinks(problem, host, model, &apart);
    out[TensorId::kLse] = std::move(apart[TensorId::kLse]);
  }
  return out;
}

}  // namespace attnfuzz
