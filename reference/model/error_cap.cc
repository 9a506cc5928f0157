#include "reference/model/error_cap.h"

#include <algorithm>
#include <limits>

#include "reference/model/error_model.h"
#include "reference/numbers/formats.h"

namespace attnfuzz {
namespace {

// The error of an unknown class, larger than any documented one.
constexpr double kUnknown = 2;

// The relative error that the exponential may have, for arguments down to -40: below, e^x is 0 in fp16.
double looseness_of_exp(const attn_plan& plan, const Calibration& cal) {
  const double fast = cal.fast_expf + 40 * cal.fast_expf_slope;
  if (plan.exp_error > 0) return plan.exp_error;
  switch (plan.exp_class) {
    case ATTN_EXP_EX2_APPROX:
      return cal.ex2;
    case ATTN_EXP_EXP2F:
      return cal.exp2f;
    case ATTN_EXP_EXPF:
      return cal.expf;
    case ATTN_EXP_FAST_EXPF:
      return fast;
    default:
      return std::max({fast, cal.ex2, cal.exp2f, cal.expf});
  }
}

double looseness_of_log(int32_t log_class, const Calibration& cal) {
  return log_class == ATTN_LOG_LG2_APPROX  ? cal.lg2
         : log_class == ATTN_LOG_LOGF      ? cal.logf
         : log_class == ATTN_LOG_FAST_LOGF ? cal.fast_logf
                                           : kUnknown;
}

double looseness_of_rcp(int32_t rcp_class, const Calibration& cal) {
  return rcp_class == ATTN_RCP_APPROX ? cal.rcp : rcp_class == ATTN_RCP_EXACT ? cal.rcp_exact : kUnknown;
}

double looseness_of_tanh(int32_t tanh_class, const Calibration& cal) {
  return tanh_class == ATTN_TANH_APPROX  ? cal.tanh_approx
         : tanh_class == ATTN_TANH_TANHF ? cal.tanhf
                                         : kUnknown;
}

int rank_of_accumulator(int32_t accumulator) { return accumulator == ATTN_ACC_FFMA ? 0 : 1; }

int rank_of_scale(int32_t mode) {
  switch (mode) {
    case ATTN_SCALE_SEPARATE:
      return 0;
    case ATTN_SCALE_FUSED:
      return 1;
    case ATTN_SCALE_SEPARATE_FMA:
      return 2;
    case ATTN_SCALE_FOLDED_Q:
      return 3;
    default:
      return 4;
  }
}

// The cost of rounding to `format`: nothing for fp32. `open` is the meaning of ATTN_FORMAT_UNKNOWN.
Format cost_of_format(int32_t format, int32_t open, int32_t dtype) {
  if (format == ATTN_FORMAT_UNKNOWN) format = open;
  if (format != ATTN_FORMAT_F32) return numbers_of(format, dtype);
  return {0, 0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
}

// The declared format, unless one of its errors exceeds the cap's. Neither fp16 nor bf16 is stricter than
// the other.
int32_t stricter_format(int32_t declared, int32_t cap, int32_t open, int32_t dtype) {
  const Format mine = cost_of_format(declared, open, dtype), top = cost_of_format(cap, open, dtype);
  const bool within = mine.unit <= top.unit && mine.tiny <= top.tiny && mine.overflow >= top.overflow;
  return within ? declared : cap;
}

int rank_of_p_order(int32_t order) {
  return order == ATTN_P_UNNORMALISED ? 0 : order == ATTN_P_NORMALISED ? 1 : 2;
}

int rank_of_merges(int32_t rule) {
  return rule == ATTN_MERGE_BY_WEIGHT ? 0 : rule == ATTN_MERGE_BY_LSE ? 1 : 2;
}

// The declared class, unless it is looser.
template <class Looseness>
int32_t stricter(int32_t declared, int32_t cap, Looseness looseness) {
  return looseness(declared) > looseness(cap) ? cap : declared;
}

void cap_counts(const attn_problem& p, const attn_plan& cap, const Calibration& cal, attn_plan& plan) {
  constexpr int64_t kFewestKeys = 16;  // of a split
  const int64_t keys = std::max<int64_t>(p.seq_k, 1);
  const int64_t splits =
      cap.merges > 0 ? cap.merges : std::max<int64_t>(2, (keys + kFewestKeys - 1) / kFewestKeys);
  plan.num_splits = std::min(plan.num_splits, splits);
  plan.merges = std::min(plan.merges, splits);
  // A row is rescaled at most once for each key. make_error_model() limits what follows from tiles.
  plan.rescales = std::min(plan.rescales, cap.rescales > 0 ? std::min(cap.rescales, keys) : keys);
  // Fewer products at once is looser. 0 leaves it to the calibration.
  const int32_t block = cap.mma_block > 0 ? cap.mma_block : cal.mma_block;
  if (plan.mma_block > 0 && plan.mma_block < block) plan.mma_block = cap.mma_block;
}

// Caps the fields that a backward pass declares. An element takes at most one addition for each key, or for each
// query of a group.
void cap_gradients(const attn_problem& p, const attn_plan& cap, attn_plan& plan) {
  for (int32_t attn_plan::* format : {&attn_plan::ds_format, &attn_plan::head_format})
    plan.*format = stricter_format(plan.*format, cap.*format, ATTN_FORMAT_OF_INPUT, p.dtype);
  const int64_t group = p.heads_kv > 0 ? p.heads_q / p.heads_kv : 1;
  const auto fewer = [](int64_t declared, int64_t most, int64_t pairs) {
    if (declared <= 0) return most;  // not known: at most the cap, if there is one
    return std::min(declared, most > 0 ? most : std::max<int64_t>(pairs, 1));
  };
  plan.dq_adds = fewer(plan.dq_adds, cap.dq_adds, p.seq_k);
  plan.dkv_adds = fewer(plan.dkv_adds, cap.dkv_adds, p.seq_q * group);
  plan.saved = std::min(plan.saved, cap.saved);  // a kernel that reads O and LSE does not compute them
}

}  // namespace

attn_plan documented_cap() {
  attn_plan plan = {};
  plan.size = sizeof plan;
  plan.num_splits = 1;
  plan.workspace_align = 1;
  plan.flush_to_zero = 1;
  return plan;
}

attn_plan best_plan() {
  attn_plan plan = documented_cap();
  plan.accumulator = ATTN_ACC_FFMA;
  plan.rescales = plan.merges = 1;
  plan.exp_class = ATTN_EXP_EXP2F;
  plan.log_class = ATTN_LOG_LOGF;
  plan.rcp_class = ATTN_RCP_EXACT;
  plan.tanh_class = ATTN_TANH_TANHF;
  plan.scale_mode = ATTN_SCALE_SEPARATE;
  plan.p_format = plan.partial_format = plan.ds_format = plan.head_format = ATTN_FORMAT_F32;
  plan.dq_adds = plan.dkv_adds = 1;
  plan.flush_to_zero = 0;
  plan.merge_rule = ATTN_MERGE_BY_WEIGHT;
  plan.kv_rule = ATTN_KV_FOLDED;
  plan.p_order = ATTN_P_UNNORMALISED;
  return plan;
}

attn_plan capped_plan(const attn_problem& p, const attn_plan& declared, const Calibration& cal) {
  if (!cal.error_cap) return declared;
  const attn_plan& top = *cal.error_cap;
  attn_plan plan = declared;
  cap_counts(p, top, cal, plan);
  cap_gradients(p, top, plan);
  plan.accumulator = stricter(plan.accumulator, top.accumulator, rank_of_accumulator);
  if (looseness_of_exp(plan, cal) > looseness_of_exp(top, cal)) {
    plan.exp_class = top.exp_class;
    plan.exp_error = top.exp_error;
  }
  plan.log_class = stricter(plan.log_class, top.log_class, [&](int32_t c) { return looseness_of_log(c, cal); });
  plan.rcp_class = stricter(plan.rcp_class, top.rcp_class, [&](int32_t c) { return looseness_of_rcp(c, cal); });
  plan.tanh_class =
      stricter(plan.tanh_class, top.tanh_class, [&](int32_t c) { return looseness_of_tanh(c, cal); });
  plan.scale_mode = stricter(plan.scale_mode, top.scale_mode, rank_of_scale);
  plan.p_format = stricter_format(plan.p_format, top.p_format, ATTN_FORMAT_OF_INPUT, p.dtype);
  plan.partial_format = stricter_format(plan.partial_format, top.partial_format, ATTN_FORMAT_OF_INPUT, p.dtype);
  for (int32_t attn_plan::* format : {&attn_plan::merge_format, &attn_plan::v_format, &attn_plan::qk_format})
    plan.*format = stricter_format(plan.*format, top.*format, ATTN_FORMAT_F32, p.dtype);
  // A small factor increases the loss by underflow, a large factor makes more values overflow.
  plan.p_scale = top.p_scale;
  plan.v_scale = top.v_scale;
  plan.p_order = stricter(p_order_of(declared), top.p_order, rank_of_p_order);
  // A merge by maxima uses no LSE.
  const bool by_maximum = top.merge_format == ATTN_FORMAT_OF_INPUT;
  plan.merge_rule =
      stricter(plan.merge_rule, by_maximum ? int32_t{ATTN_MERGE_BY_WEIGHT} : top.merge_rule, rank_of_merges);
  const auto itself = [](int32_t x) { return x; };
  plan.flush_to_zero = stricter(plan.flush_to_zero, top.flush_to_zero, itself);
  plan.conversion = stricter(plan.conversion, top.conversion, itself);
  plan.sum_rule = stricter(plan.sum_rule, top.sum_rule, itself);
  plan.isolates_masked_nan |= top.isolates_masked_nan;
  // Folded scales are rounded in fp32.
  if (plan.kv_rule == ATTN_KV_RULE_UNKNOWN || top.kv_rule == ATTN_KV_FOLDED) plan.kv_rule = top.kv_rule;
  // The caller defines the form of the LSE.
  plan.lse_base = top.lse_base;
  plan.lse_dead = top.lse_dead;
  plan.lse_sink = top.lse_sink;
  return plan;
}

}  // namespace attnfuzz
