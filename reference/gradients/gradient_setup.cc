#include "reference/gradients/gradient_setup.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "reference/call/row_space.h"
#include "reference/call/sequences.h"
#include "reference/model/error_cap.h"
#include "reference/numbers/formats.h"
#include "reference/rows/sinks.h"

namespace attnfuzz::gradients {

ErrorModel error_model(const attn_problem& problem, const attn_plan& plan, const Calibration& calibration) {
  ErrorModel model = make_error_model(problem, plan, calibration);
  model.log_unit = plan.lse_base == 2 ? std::numbers::ln2 : 1;
  std::erase_if(model.assumptions, [](const Assumption& one) {
    using enum Assumption::Part;
    return one.part == kLog || one.part == kReciprocal || one.part == kFormatOfPartials;  // not used here
  });
  return model;
}

bool leaves_sink_out(const attn_problem& problem, const attn_plan& plan, const Calibration& calibration) {
  if ((problem.features & ATTN_FEATURE_DSINK) == 0) return false;
  const attn_plan capped = capped_plan(problem, plan, calibration);
  return (recomputes(capped) ? capped : plan).lse_sink != 0;
}

Terms make_terms(const attn_problem& problem, const attn_plan& plan, const ErrorModel& model) {
  Terms terms;
  const double u_t = model.factor_unit;
  terms.converted = (1 + u_t) * (1 + u_t) - 1;
  terms.flushed = model.flushed_factor + (1 + u_t) * model.factor_tiny;
  terms.dim_qk = static_cast<double>(problem.dim_qk);
  terms.dim_v = static_cast<double>(problem.dim_v);
  terms.product_unit = model.product_unit;
  terms.sum_unit = model.sum_unit;
  terms.score_error = model.score_gamma * (1 + terms.converted) + terms.converted;
  terms.grad_error =
      compound(model.block_error(terms.dim_v)) * (1 + terms.converted) + terms.converted + model.v_unit;
  terms.least = model.least_factor;
  const bool wide = problem.dtype == ATTN_F32;
  const auto in_input = [](int32_t format) {
    return format == ATTN_FORMAT_UNKNOWN || format == ATTN_FORMAT_OF_INPUT;
  };
  if (plan.ds_format != ATTN_FORMAT_F32 && !(wide && in_input(plan.ds_format))) {
    const Format format = numbers_of(plan.ds_format, problem.dtype);
    const double times = plan.conversion == ATTN_CONVERT_NEAREST ? 1 : 2;
    terms.s_unit = times * format.unit;
    terms.s_tiny = times * format.tiny;
    terms.s_overflow = plan.conversion == ATTN_CONVERT_NEAREST ? format.overflow : format.max;
  }
  terms.rounds_heads = problem.heads_q > problem.heads_kv && !wide && in_input(plan.head_format);
  terms.rounds_pairs = !wide && in_input(plan.head_format);
  if (problem.bias_dtype != ATTN_NONE) {
    const Format format = format_of(problem.bias_dtype);
    terms.bias_unit = format.unit;
    terms.bias_tiny = model.flushes ? std::max(format.tiny, kFlush) : format.tiny;
  }
  terms.dq_adds = plan.dq_adds;
  terms.dkv_adds = plan.dkv_adds;
  return terms;
}

Wanted wanted(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan, RowSample sample) {
  if ((problem.features & (ATTN_FEATURE_DBIAS | ATTN_FEATURE_DSINK)) != 0) sample.limit = 0;
  Wanted out;
  out.rows.assign(static_cast<size_t>(RowSpace(problem).count()), sample.limit == 0);
  out.keys.assign(static_cast<size_t>(problem.batch * problem.heads_kv * problem.seq_k), sample.limit == 0);
  if (sample.limit == 0) return out;
  for (const int64_t row : sampled_rows(problem, host, plan.tile_q, sample))
    out.rows[static_cast<size_t>(row)] = true;
  const Sequences sequences(problem, host);
  const RowSpace keys(problem.batch, problem.heads_kv, problem.seq_k);
  const auto queries = static_cast<double>(rows_present(RowSpace(problem), sequences.queries));
  const double share = static_cast<double>(rows_present(keys, sequences.keys)) / std::max(queries, 1.0);
  sample.limit = std::max<int64_t>(64, static_cast<int64_t>(static_cast<double>(sample.limit) * share));
  for (const int64_t key : sampled_rows(keys, sequences.keys, plan.tile_k, sample))
    out.keys[static_cast<size_t>(key)] = true;
  return out;
}

Reference unset_gradients(const attn_problem& problem, const attn_tensors& host, const ErrorModel& model) {
  const Sequences sequences(problem, host);
  const RowSpace space(problem);
  Reference out;
  out.rows = space.count();
  out.state.assign(static_cast<size_t>(out.rows), RowState::kSkipped);
  out.assumptions = model.assumptions;
  for (int64_t row = 0; sequences.queries.packed() && row < out.rows; ++row) {
    const Row at = space.at(row);
    if (at.i >= sequences.queries.length(at.b)) out.state[static_cast<size_t>(row)] = RowState::kAbsent;
  }
  for (const TensorId tensor :
       {TensorId::kDq, TensorId::kDk, TensorId::kDv, TensorId::kDbias, TensorId::kDsink}) {
    const std::array<int64_t, 4> size = shape_of(spec_of(tensor), problem);
    if ((spec_of(tensor).operations & problem.features) == 0) continue;
    const bool there = in_problem(spec_of(tensor), problem.features);
    const int64_t elements = there ? size[0] * size[1] * size[2] * size[3] : 0;
    out.outputs.push_back(unset_output(tensor, size[3], elements, output_overflow(model)));
    Expected& expected = out.outputs.back();
    if (tensor == TensorId::kDbias && there) expected.overflow = format_of(problem.bias_dtype).overflow;
    if (tensor == TensorId::kDsink) expected.overflow = format_of(ATTN_F32).overflow;
  }
  return out;
}

namespace {

void take(const Expected& due, std::vector<double>* value, std::vector<double>* error) {
  *value = due.value;
  *error = due.bound;
  for (size_t n = 0; n < value->size(); ++n) {
    const auto rule = static_cast<Due>(due.rule[n]);
    const bool overflows = due.overflow > 0 && std::abs(due.value[n]) + due.bound[n] >= due.overflow;
    if (rule == Due::kMustBeNaN) (*value)[n] = std::numeric_limits<double>::quiet_NaN();
    if (rule == Due::kAnything || (rule == Due::kNumber && overflows && !due.logarithm))
      (*value)[n] = kInfinity;
    if (rule != Due::kNumber) (*error)[n] = 0;
  }
}

}  // namespace

OwnForward::OwnForward(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                       const Calibration& given, const Evaluate& evaluate) {
  Calibration calibration = given;
  attn_plan own = in_any_order(plan);
  own.lse_sink = 0;
  own.lse_base = own.lse_dead = 0;
  if (attn_plan* cap = calibration.error_cap ? &*calibration.error_cap : nullptr)
    cap->lse_base = cap->lse_dead = cap->lse_sink = 0;
  const Reference due = evaluate(problem, host, own, calibration);
  take(due[TensorId::kO], &o_, &o_error_);
  take(due[TensorId::kLse], &lse_, &lse_error_);
  assumptions_ = due.assumptions;
  if (!leaves_sink_out(problem, plan, given)) return;
  Reference apart = evaluate(without_sinks(problem), host, own, calibration);
  charge_sinks(problem, host, make_error_model(forward_of(problem), own, calibration), &apart);
  take(apart[TensorId::kLse], &lse_apart_, &lse_apart_error_);
}

void OwnForward::add_assumptions(Reference* due) const {
  for (const Assumption& one : assumptions_) {
    if (std::ranges::find(due->assumptions, one) == due->assumptions.end()) due->assumptions.push_back(one);
  }
}

}  // namespace attnfuzz::gradients
