#include "reference/error_model.h"

#include <algorithm>
#include <cmath>

#include "reference/formats.h"

namespace attnfuzz {
namespace {

void accumulator(const attn_problem& problem, const attn_plan& plan, const Calibration& cal,
                 ErrorModel* model) {
  model->tensor_cores = plan.accumulator != ATTN_ACC_FFMA;
  if (plan.accumulator == ATTN_ACC_UNKNOWN)
    model->assumptions.push_back("accumulator not known: tensor cores assumed");
  const double d = static_cast<double>(problem.dim_qk);
  double additions = d;
  if (model->tensor_cores) {
    model->unit_a = cal.mma_unit;
    model->mma_block = plan.mma_block > 0 ? plan.mma_block : cal.mma_block;
    if (plan.mma_block <= 0 && !cal.measured)
      model->assumptions.push_back("mma block not known: " + std::to_string(cal.mma_block) + " assumed");
    additions += 2 * std::ceil(d / static_cast<double>(model->mma_block));
  }
  model->dim_qk = d;
  model->score_gamma = gamma(additions, model->unit_a);
}

void exponential(const attn_plan& plan, const Calibration& cal, ErrorModel* model) {
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
      model->assumptions.push_back("exp not known: __expf assumed");
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
      model->assumptions.push_back("log not known: the loosest documented class assumed");
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
      model->assumptions.push_back("reciprocal not known: the loosest documented class assumed");
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
      model->assumptions.push_back("tanh not known: tanh.approx assumed");
  }
}

void scaling(const attn_problem& problem, const attn_plan& plan, ErrorModel* model) {
  model->scale = problem.scale;
  model->fused = plan.scale_mode == ATTN_SCALE_FUSED;
  model->may_be_fused = model->fused || plan.scale_mode == ATTN_SCALE_UNKNOWN;
  if (plan.scale_mode == ATTN_SCALE_UNKNOWN)
    model->assumptions.push_back("scaling not known: folded into a 16-bit Q assumed");
  if (plan.scale_mode == ATTN_SCALE_UNKNOWN || plan.scale_mode == ATTN_SCALE_FOLDED_Q) {
    const Format format = format_of(problem.dtype);
    model->folded_unit = format.unit;
    model->folded_tiny = format.tiny;
    model->folded_overflow = format.overflow;
  }
}

void formats(const attn_problem& problem, const attn_plan& plan, ErrorModel* model) {
  const Format input = format_of(problem.dtype);
  if (plan.p_format != ATTN_FORMAT_F32) {
    model->p_unit = input.unit;
    model->p_tiny = input.tiny;
    model->p_overflow = input.overflow;
    if (plan.p_format == ATTN_FORMAT_UNKNOWN)
      model->assumptions.push_back("format of P not known: the input's assumed");
  }
  model->o_unit = input.unit;
  model->o_tiny = plan.flush_to_zero ? std::max(input.tiny, kFlush) : input.tiny;
  model->overflow = input.overflow;
  // Who says that partials are kept in 16 bits may keep them so at one split too.
  const bool partials = model->splits > 1 || plan.partial_format == ATTN_FORMAT_OF_INPUT;
  if (partials && plan.partial_format != ATTN_FORMAT_F32) {
    model->partial_unit = input.unit;
    model->partial_tiny = std::max(input.tiny, kFlush);
    if (plan.partial_format == ATTN_FORMAT_UNKNOWN)
      model->assumptions.push_back("format of the partials not known: the input's assumed");
  }
}

void order_of_work(const attn_plan& plan, ErrorModel* model) {
  model->splits = std::max<int64_t>({1, plan.num_splits, plan.merges});
  model->tile_k = plan.tile_k;
  if (plan.tile_k <= 0) {
    model->tile_k = 1;
    model->assumptions.push_back("KV tile not known: a rescale at every key assumed");
  }
  model->split_tiles = plan.num_splits > 1 ? std::max<int64_t>(plan.split_tiles, 0) : 0;
  model->rescales = std::max<int64_t>(plan.rescales, 0);
  model->isolates_masked_nan = plan.isolates_masked_nan != 0;
}

}  // namespace

ErrorModel make_error_model(const attn_problem& problem, const attn_plan& plan,
                            const Calibration& calibration) {
  ErrorModel model;
  order_of_work(plan, &model);
  accumulator(problem, plan, calibration, &model);
  scalar_functions(problem, plan, calibration, &model);
  scaling(problem, plan, &model);
  formats(problem, plan, &model);
  return model;
}

ErrorModel partial_error_model(const attn_problem& problem, const attn_plan& plan,
                               const Calibration& calibration) {
  ErrorModel model = make_error_model(problem, plan, calibration);
  model.splits = 1;
  model.partial_unit = model.partial_tiny = 0;
  if (plan.partial_format != ATTN_FORMAT_OF_INPUT) {
    const Format fp32 = format_of(ATTN_F32);
    model.o_unit = fp32.unit;
    model.o_tiny = kFlush;
    model.overflow = fp32.overflow;
  }
  return model;
}

double rescales_of(const ErrorModel& model, int64_t first, int64_t last) {
  int64_t tiles = last / model.tile_k - first / model.tile_k + 1;
  if (model.split_tiles > 0) tiles = std::min(tiles, model.split_tiles);
  // A plan may rescale less often than once a tile, or more often: it says so.
  if (model.rescales > tiles) tiles = model.rescales;
  return static_cast<double>(tiles);
}

}  // namespace attnfuzz
