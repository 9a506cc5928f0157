#include "reference/emulator/declared.h"

#include <bit>

#include "reference/call/known_features.h"

namespace attnfuzz::emulator {

std::string left_open(const attn_problem& problem, const attn_plan& plan) {
  // fp32 inputs are refused below, because their p_format counts as open.
  constexpr uint64_t kKnown =
      ATTN_FEATURE_F32 | ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32 | ATTN_FEATURE_PAGED | ATTN_FEATURE_KEY_STEP;
  if (std::string why = unknown_features({"the emulator", kKnown}, problem.features); !why.empty()) return why;
  const bool fused = plan.scale_mode == ATTN_SCALE_FUSED, split = plan.num_splits > 1;
  const bool plain = problem.softcap == 0 && problem.bias_dtype == ATTN_NONE;
  const auto one = [](float scale) { return scale == 0 || scale == 1; };
  const struct {
    const char* field;
    bool said;
  } fields[] = {
      {"accumulator", plan.accumulator == ATTN_ACC_TENSOR},
      {"exp_class", plan.exp_class == ATTN_EXP_EX2_APPROX && plan.exp_error == 0},
      {"log_class", plan.log_class == ATTN_LOG_LG2_APPROX},
      {"rcp_class", plan.rcp_class == ATTN_RCP_APPROX},
      {"scale_mode", (fused && plain) || plan.scale_mode == ATTN_SCALE_SEPARATE},
      {"score_rule", fused || plan.score_rule != ATTN_SCORE_UNKNOWN},
      {"tanh_rule", problem.softcap == 0 || plan.tanh_rule == ATTN_TANH_IN_TWO},
      {"p_format", plan.p_format == ATTN_FORMAT_OF_INPUT && problem.dtype != ATTN_F32 && one(plan.p_scale)},
      {"p_order", plan.p_order != ATTN_P_NORMALISED},
      {"v_format",
       (plan.v_format == ATTN_FORMAT_UNKNOWN || plan.v_format == ATTN_FORMAT_OF_INPUT) && one(plan.v_scale)},
      {"qk_format", plan.qk_format == ATTN_FORMAT_UNKNOWN},
      {"conversion", plan.conversion == ATTN_CONVERT_NEAREST},
      {"key_order", plan.key_order == ATTN_KEYS_ASCENDING || plan.key_order == ATTN_KEYS_DESCENDING},
      {"max_rule", plan.max_rule == ATTN_MAX_RUNNING},
      {"rescale_rule", plan.rescale_rule != ATTN_RESCALE_UNKNOWN},
      {"tile_order", plan.tile_order == ATTN_TILE_ASCENDING && plan.tile_k % 16 == 0},
      {"dot_order", plan.dot_order == ATTN_DOT_ASCENDING},
      {"sum_rule", plan.sum_rule == ATTN_SUM_OF_EXP},
      {"sum_lanes", plan.sum_lanes > 0 && std::has_single_bit(static_cast<uint32_t>(plan.sum_lanes))},
      {"sum_run", plan.sum_run > 0},
      {"norm_rule", plan.norm_rule == ATTN_NORM_BY_RECIPROCAL},
      {"lse_rule", plan.lse_rule != ATTN_LSE_UNKNOWN},
      {"lse_base", plan.lse_base == 0},
      {"lse_dead", plan.lse_dead == ATTN_LSE_DEAD_MINUS_INF},
      {"split_tiles", !split || plan.split_tiles > 0},
      {"partial_format",
       !split || plan.partial_format == ATTN_FORMAT_F32 || plan.partial_format == ATTN_FORMAT_OF_INPUT},
      {"merge_format", !split || plan.merge_format != ATTN_FORMAT_OF_INPUT},
      {"merge_rule", !split || plan.merge_rule == ATTN_MERGE_BY_WEIGHT},
      {"merge_order", !split || plan.merge_order != ATTN_MERGE_ANY},
  };
  for (const auto& [field, said] : fields)
    if (!said) return std::string("the plan leaves ") + field + " open, or sets it to what is not emulated";
  return "";
}

}  // namespace attnfuzz::emulator
