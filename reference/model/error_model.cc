#include "reference/model/error_model.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "reference/model/error_cap.h"
#include "reference/numbers/formats.h"

namespace attnfuzz {
namespace {

bool is_8_bit(int32_t format) { return format == ATTN_FORMAT_E4M3 || format == ATTN_FORMAT_E5M2; }

// The 16-bit dtype that P is rounded to, or ATTN_NONE.
int32_t dtype_of_p(const attn_problem& problem, const attn_plan& plan) {
  switch (plan.p_format) {
    case ATTN_FORMAT_OF_INPUT:
      return problem.dtype;
    case ATTN_FORMAT_F16:
      return ATTN_F16;
    case ATTN_FORMAT_BF16:
      return ATTN_BF16;
    default:
      return ATTN_NONE;
  }
}

// Without rounding to nearest, the error is up to twice as large, and the largest finite number may become
// an infinity.
Format converted(Format format, const attn_plan& plan) {
  if (plan.conversion == ATTN_CONVERT_NEAREST) return format;
  return {2 * format.unit, 2 * format.tiny, format.max, format.max};
}

using Part = Assumption::Part;

// K and V of 8 bits. The charges depend on the scales (rows/kv_scales.h).
void narrow(const attn_problem& problem, const attn_plan& plan, ErrorModel* model) {
  if (problem.kv_dtype == 0) return;
  const Format format = converted(format_of(problem.dtype), plan);
  model->narrow = true;
  model->kv_rule = plan.kv_rule;
  model->kv_unit = format.unit;
  model->kv_tiny = format.tiny;
  model->kv_overflow = format.overflow;
  if (plan.kv_rule == ATTN_KV_RULE_UNKNOWN)
    model->assumptions.push_back({Part::kKvRule, "codes are multiplied by scales and rounded"});
}

// With fp32 inputs, a value in the input's format or in an unknown format is not rounded further.
attn_plan in_fp32(const attn_problem& problem, attn_plan plan) {
  if (problem.dtype != ATTN_F32) return plan;
  for (int32_t* format : {&plan.p_format, &plan.partial_format})
    if (*format == ATTN_FORMAT_UNKNOWN || *format == ATTN_FORMAT_OF_INPUT) *format = ATTN_FORMAT_F32;
  if (plan.v_format == ATTN_FORMAT_OF_INPUT) plan.v_format = ATTN_FORMAT_F32;
  return plan;
}

void accumulator(const attn_problem& problem, const attn_plan& plan, const Calibration& cal,
                 ErrorModel* model) {
  // Tensor cores take no fp32. A kernel that uses them on fp32 says what it rounds to, or that it uses them.
  const bool chains = problem.dtype == ATTN_F32 && plan.qk_format == ATTN_FORMAT_UNKNOWN;
  const bool open = plan.accumulator == ATTN_ACC_UNKNOWN;
  model->tensor_cores = open ? !chains : plan.accumulator != ATTN_ACC_FFMA;
  if (open)
    model->assumptions.push_back({Part::kAccumulator, chains ? "FFMA for inputs in fp32" : "tensor cores"});
  const double d = static_cast<double>(problem.dim_qk);
  if (model->tensor_cores) {
    model->product_unit = cal.mma_product;
    model->sum_unit = cal.mma_sum;
    model->mma_block = cal.mma_block;
    // On a measured device, the plan can only say that it adds fewer products at once.
    if (plan.mma_block > 0)
      model->mma_block = cal.measured ? std::min(cal.mma_block, plan.mma_block) : plan.mma_block;
    if (plan.mma_block <= 0 && !cal.measured)
      model->assumptions.push_back({Part::kMmaBlock, std::to_string(cal.mma_block)});
    if (problem.dtype == ATTN_F16) model->least_factor = cal.mma_least_f16;
    if (problem.dtype == ATTN_F16 || plan.p_format == ATTN_FORMAT_F16 || plan.v_format == ATTN_FORMAT_F16)
      model->least_value = cal.mma_least_f16;
    // A tensor core takes at most half as many 32-bit factors at once. The calibration is for 16-bit factors.
    if (problem.dtype == ATTN_F32) model->mma_block = std::min<int64_t>(model->mma_block, 4);
  }
  // fp16's subnormals are normal numbers of fp32; bf16's are not.
  model->flushes = plan.flush_to_zero != 0;
  if (model->flushes && problem.dtype != ATTN_F16) model->flushed_factor = kFlush;
  model->dim_qk = d;
  model->score_gamma = compound(model->block_error(d));
  model->ascending_dot = plan.dot_order == ATTN_DOT_ASCENDING;
  model->score_block = model->block_error(std::min(d, 16.0));
}

void exponential(const attn_plan& plan, const Calibration& cal, ErrorModel* model) {
  if (plan.exp_error > 0) {
    // The figure concerns only the exponential. Multiplying its argument by log2 e is charged separately.
    model->eps_exp = plan.exp_error;
    return;
  }
  switch (plan.exp_class) {
    case ATTN_EXP_EX2_APPROX:
      model->eps_exp = cal.ex2;
      return;
    case ATTN_EXP_EXP2F:
      model->eps_exp = cal.exp2f;
      return;
    case ATTN_EXP_EXPF:
      model->eps_exp = cal.expf;
      return;
    case ATTN_EXP_FAST_EXPF:
      break;
    default:
      model->assumptions.push_back({Part::kExp, "__expf"});
  }
  model->eps_exp = std::max({cal.fast_expf, plan.exp_class == ATTN_EXP_FAST_EXPF ? 0 : cal.ex2,
                             plan.exp_class == ATTN_EXP_FAST_EXPF ? 0 : std::max(cal.exp2f, cal.expf)});
  model->eps_exp_slope = cal.fast_expf_slope;
}

void scalar_functions(const attn_problem& problem, const attn_plan& plan, const Calibration& cal,
                      ErrorModel* model) {
  exponential(plan, cal, model);
  switch (plan.log_class) {
    case ATTN_LOG_LG2_APPROX:
      model->eps_log = cal.lg2;
      break;
    case ATTN_LOG_LOGF:
      model->eps_log = cal.logf;
      break;
    case ATTN_LOG_FAST_LOGF:
      model->eps_log = cal.fast_logf;
      break;
    default:
      model->eps_log = std::max({cal.lg2, cal.logf, cal.fast_logf});
      model->assumptions.push_back({Part::kLog, "the loosest documented class"});
  }
  switch (plan.rcp_class) {
    case ATTN_RCP_APPROX:
      model->eps_reciprocal = cal.rcp;
      break;
    case ATTN_RCP_EXACT:
      model->eps_reciprocal = cal.rcp_exact;
      break;
    default:
      model->eps_reciprocal = std::max(cal.rcp, cal.rcp_exact);
      model->assumptions.push_back({Part::kReciprocal, "the loosest documented class"});
  }
  model->softcap = problem.softcap > 0 ? problem.softcap : 0;
  if (model->softcap == 0) return;
  switch (plan.tanh_class) {
    case ATTN_TANH_APPROX:
      model->eps_tanh = cal.tanh_approx;
      break;
    case ATTN_TANH_TANHF:
      model->eps_tanh = cal.tanhf;
      break;
    default:
      model->eps_tanh = std::max(cal.tanh_approx, cal.tanhf);
      model->assumptions.push_back({Part::kTanh, "tanh.approx"});
  }
}

void scaling(const attn_problem& problem, const attn_plan& plan, ErrorModel* model) {
  model->scale = problem.scale;
  model->fused = plan.scale_mode == ATTN_SCALE_FUSED;
  model->may_be_fused = plan.scale_mode != ATTN_SCALE_SEPARATE;
  if (plan.scale_mode == ATTN_SCALE_UNKNOWN)
    model->assumptions.push_back(
        {Part::kScaling, problem.dtype == ATTN_F32 ? "folded into Q" : "folded into a 16-bit Q"});
  if (plan.scale_mode == ATTN_SCALE_UNKNOWN || plan.scale_mode == ATTN_SCALE_FOLDED_Q) {
    const Format format = converted(format_of(problem.dtype), plan);
    model->folded_unit = format.unit;
    model->folded_tiny = format.tiny;
    model->folded_overflow = format.overflow;
  }
  if (plan.qk_format != ATTN_FORMAT_UNKNOWN) {
    const Format format = converted(numbers_of(plan.qk_format, problem.dtype), plan);
    model->factor_unit = format.unit;
    model->factor_tiny = format.tiny;
    model->factor_overflow = format.overflow;
  }
}

void format_of_p(const attn_problem& problem, const attn_plan& plan, ErrorModel* model) {
  model->p_order = p_order_of(plan);
  if (plan.p_format == ATTN_FORMAT_F32) return;
  const Format format = converted(numbers_of(plan.p_format, problem.dtype), plan);
  const bool scaled = plan.p_scale > 0;
  model->p_scale = scaled ? plan.p_scale : 1;
  model->p_unit = format.unit + (scaled ? kU : 0);
  model->p_tiny = format.tiny / model->p_scale;
  model->p_overflow = format.overflow / model->p_scale;
  model->p_to_nearest = plan.conversion == ATTN_CONVERT_NEAREST;
  if (plan.p_format == ATTN_FORMAT_UNKNOWN) model->assumptions.push_back({Part::kFormatOfP, "the input's"});
  if (model->p_order == ATTN_P_ANY)
    model->assumptions.push_back({Part::kOrderOfP, "before or after the division by the sum"});
  // 8-bit products are added with fewer bits (13 on Hopper), 32 at once.
  if (is_8_bit(plan.p_format) && model->tensor_cores) {
    model->product_unit = std::max(model->product_unit, 0x1p-13);
    model->sum_unit = std::max(model->sum_unit, 0x1p-12);
  }
  const bool known =
      model->max_rule != ATTN_MAX_UNKNOWN && model->p_to_nearest && model->p_order == ATTN_P_UNNORMALISED;
  if (known && plan.sum_rule == ATTN_SUM_OF_EXP) model->p_predicted = dtype_of_p(problem, plan);
  model->rounded_sum = plan.sum_rule == ATTN_SUM_OF_ROUNDED_P;
}

void formats(const attn_problem& problem, const attn_plan& plan, ErrorModel* model) {
  format_of_p(problem, plan, model);
  const Format input = converted(format_of(problem.dtype), plan);
  if (plan.v_format != ATTN_FORMAT_UNKNOWN && plan.v_format != ATTN_FORMAT_F32) {
    const Format format = converted(numbers_of(plan.v_format, problem.dtype), plan);
    const double scale = plan.v_scale > 0 ? plan.v_scale : 1;
    // Multiplying and dividing by a factor costs two more roundings.
    model->v_unit = format.unit + (plan.v_scale > 0 ? 2 * kU : 0);
    model->v_tiny = format.tiny / scale;
    model->v_overflow = format.overflow / scale;
  }
  model->o_unit = input.unit;
  model->o_tiny = plan.flush_to_zero ? std::max(input.tiny, kFlush) : input.tiny;
  model->overflow = input.overflow;
  // A kernel that keeps partials in 16 bits may do so with one split, too.
  const bool partials = model->splits > 1 || plan.partial_format == ATTN_FORMAT_OF_INPUT;
  if (partials && plan.partial_format != ATTN_FORMAT_F32) {
    model->partial_unit = input.unit;
    model->partial_tiny = std::max(input.tiny, kFlush);
    model->partial_overflow = input.overflow;
    if (plan.partial_format == ATTN_FORMAT_UNKNOWN)
      model->assumptions.push_back({Part::kFormatOfPartials, "the input's"});
  }
  if (plan.merge_format != ATTN_FORMAT_OF_INPUT) return;
  // A partial, its weight and their product are rounded, and then both sums that are divided. With fp32 inputs,
  // all of these are rounded to fp32.
  model->merge_unit = 2 * input.unit / (1 - input.unit);
  model->merge_tiny = std::max(input.tiny, kFlush);
  if (model->splits > 1)
    model->partial_unit = (1 + model->partial_unit) * (1 + input.unit) * (1 + input.unit) - 1;
}

void order_of_work(const attn_plan& plan, ErrorModel* model) {
  model->splits = std::max<int64_t>({1, plan.num_splits, plan.merges});
  model->tile_k = plan.tile_k;
  if (plan.tile_k <= 0) {
    model->tile_k = 1;
    model->assumptions.push_back({Part::kKvTile, "a rescale at every key"});
  }
  model->split_tiles = plan.num_splits > 1 ? std::max<int64_t>(plan.split_tiles, 0) : 0;
  model->rescales = std::max<int64_t>(plan.rescales, 0);
  model->isolates_masked_nan = plan.isolates_masked_nan != 0;
  // Declarations about tiles mean nothing if a split's tiles are not known.
  const bool tiles = plan.tile_k > 0 && (plan.num_splits <= 1 || plan.split_tiles > 0);
  model->key_order = tiles ? plan.key_order : ATTN_KEYS_ANY;
  model->max_rule = tiles ? plan.max_rule : ATTN_MAX_UNKNOWN;
  model->sum_lanes = tiles && model->in_order() ? plan.sum_lanes : 0;
  model->merge_by_maximum = plan.merge_format == ATTN_FORMAT_OF_INPUT;
  if (model->splits > 1 && plan.merge_rule != ATTN_MERGE_BY_WEIGHT && !model->merge_by_maximum) {
    const bool at_once = plan.merge_rule == ATTN_MERGE_BY_LSE;
    model->merge_steps = at_once ? 1 : static_cast<double>(model->splits);
    model->merge_rounds = model->merge_steps;
  }
}

void form_of_lse(const attn_plan& plan, ErrorModel* model) {
  if (plan.lse_base == 2)
    model->log_unit = std::numbers::ln2, model->log_overflow = format_of(ATTN_F32).overflow;
  if (plan.lse_dead == ATTN_LSE_DEAD_PLUS_INF) model->dead_lse = kInfinity;
  if (plan.lse_dead == ATTN_LSE_DEAD_ZERO) model->dead_lse = 0;
  model->any_dead_lse = plan.lse_dead == ATTN_LSE_DEAD_ANY;
}

}  // namespace

int32_t p_order_of(const attn_plan& plan) {
  const bool divides_last = plan.max_rule == ATTN_MAX_RUNNING || plan.sum_rule == ATTN_SUM_OF_ROUNDED_P ||
                            plan.merge_format == ATTN_FORMAT_OF_INPUT;
  return plan.p_order == ATTN_P_ANY && divides_last ? int32_t{ATTN_P_UNNORMALISED} : plan.p_order;
}

attn_plan in_any_order(attn_plan plan) {
  plan.p_order = p_order_of(plan);
  plan.key_order = ATTN_KEYS_ANY;
  plan.max_rule = ATTN_MAX_UNKNOWN;
  plan.sum_lanes = 0;
  return plan;
}

ErrorModel make_error_model(const attn_problem& problem, const attn_plan& declared,
                            const Calibration& calibration) {
  const attn_plan plan = in_fp32(problem, capped_plan(problem, declared, calibration));
  ErrorModel model;
  order_of_work(plan, &model);
  if (calibration.error_cap) model.most_rescales = std::max<int64_t>(calibration.error_cap->rescales, 0);
  accumulator(problem, plan, calibration, &model);
  scalar_functions(problem, plan, calibration, &model);
  scaling(problem, plan, &model);
  formats(problem, plan, &model);
  form_of_lse(plan, &model);
  narrow(problem, plan, &model);
  return model;
}

ErrorModel partial_error_model(const attn_problem& problem, const attn_plan& plan,
                               const Calibration& calibration) {
  ErrorModel model = make_error_model(problem, plan, calibration);
  model.splits = 1;
  model.merge_steps = 0;
  // In the contract, partials have only one form of LSE.
  model.log_unit = 1;
  model.log_overflow = 0;
  model.dead_lse = -kInfinity;
  model.any_dead_lse = false;
  model.partial_unit = model.partial_tiny = model.partial_overflow = 0;
  model.merge_unit = model.merge_tiny = 0;
  if (capped_plan(problem, plan, calibration).partial_format != ATTN_FORMAT_OF_INPUT) {
    const Format fp32 = format_of(ATTN_F32);
    model.o_unit = fp32.unit;
    model.o_tiny = kFlush;
    model.overflow = fp32.overflow;
  }
  return model;
}

}  // namespace attnfuzz
