#include "properties/judge/bad_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "properties/memory/arena.h"
#include "properties/memory/layout.h"

namespace attnfuzz {
namespace {

struct Limit {
  const char* field;
  int64_t value, low, high;
  const char* advice;
};

}  // namespace

std::optional<std::string> bad_plan(const attn_plan& p) {
  if (p.size < ATTN_PLAN_MIN)
    return "size is " + std::to_string(p.size) + ", must be at least " + std::to_string(ATTN_PLAN_MIN);
  if (!std::memchr(p.path, 0, sizeof p.path)) return "path has no terminating NUL";
  // More rows than any block holds, but few enough that a case can be drawn for them.
  constexpr int64_t kMostRows = 1 << 20, kMostTimes = int64_t{1} << 31;
  constexpr auto kMostBytes = static_cast<int64_t>(Arena::kSlotBytes - 4 * Arena::kPage);
  constexpr const char* kTile = "1 will do for a kernel without tiles";
  constexpr const char* kChoice = "0 means: not known";
  constexpr const char* kFlag = "a boolean";
  const auto number = [](uint64_t n) { return static_cast<int64_t>(std::min(n, uint64_t{INT64_MAX})); };
  const Limit limits[] = {
      {"tile_q", p.tile_q, 1, kMostRows, kTile},
      {"tile_k", p.tile_k, 1, kMostRows, kTile},
      {"num_splits", p.num_splits, 1, kMostTimes, "1 means: none"},
      {"split_tiles", p.split_tiles, 0, kMostTimes, "0 means: not known"},
      {"rescales", p.rescales, 0, kMostTimes, "0 means: not known"},
      {"merges", p.merges, 0, kMostTimes, "0 means: none"},
      {"mma_block", p.mma_block, 0, 1 << 16, "0 means: not known"},
      {"accumulator", p.accumulator, ATTN_ACC_UNKNOWN, ATTN_ACC_TENSOR, kChoice},
      {"exp_class", p.exp_class, ATTN_EXP_UNKNOWN, ATTN_EXP_FAST_EXPF, kChoice},
      {"log_class", p.log_class, ATTN_LOG_UNKNOWN, ATTN_LOG_FAST_LOGF, kChoice},
      {"rcp_class", p.rcp_class, ATTN_RCP_UNKNOWN, ATTN_RCP_EXACT, kChoice},
      {"tanh_class", p.tanh_class, ATTN_TANH_UNKNOWN, ATTN_TANH_TANHF, kChoice},
      {"scale_mode", p.scale_mode, ATTN_SCALE_UNKNOWN, ATTN_SCALE_SEPARATE_FMA, kChoice},
      {"p_format", p.p_format, ATTN_FORMAT_UNKNOWN, ATTN_FORMAT_BF16, kChoice},
      {"partial_format", p.partial_format, ATTN_FORMAT_UNKNOWN, ATTN_FORMAT_OF_INPUT, kChoice},
      {"flush_to_zero", p.flush_to_zero, 0, 1, kFlag},
      {"isolates_masked_nan", p.isolates_masked_nan, 0, 1, kFlag},
      {"deterministic", p.deterministic, 0, 1, kFlag},
      {"workspace_bytes", number(p.workspace_bytes), 0, kMostBytes, "0 means: none"},
      {"workspace_align", number(p.workspace_align), 1, kMaxWorkspaceAlign, "a power of two; 1 will do"},
      {"key_order", p.key_order, ATTN_KEYS_ANY, ATTN_KEYS_CONSECUTIVE, kChoice},
      {"max_rule", p.max_rule, ATTN_MAX_UNKNOWN, ATTN_MAX_WHOLE, kChoice},
      {"sum_rule", p.sum_rule, ATTN_SUM_OF_EXP, ATTN_SUM_OF_ROUNDED_P, "0 means: before P is rounded"},
      {"sum_lanes", p.sum_lanes, 0, 1 << 16, "0 means: not known"},
      {"dot_order", p.dot_order, ATTN_DOT_ANY, ATTN_DOT_ASCENDING, kChoice},
      {"merge_rule", p.merge_rule, ATTN_MERGE_UNKNOWN, ATTN_MERGE_ONE_BY_ONE, kChoice},
      {"conversion", p.conversion, ATTN_CONVERT_NEAREST, ATTN_CONVERT_FAITHFUL, "0 means: to nearest"},
      {"v_format", p.v_format, ATTN_FORMAT_UNKNOWN, ATTN_FORMAT_BF16, "0 means: V stays as it is"},
      {"score_rule", p.score_rule, ATTN_SCORE_UNKNOWN, ATTN_SCORE_BY_FMA, kChoice},
      {"tanh_rule", p.tanh_rule, ATTN_TANH_RULE_UNKNOWN, ATTN_TANH_IN_TWO, kChoice},
      {"rescale_rule", p.rescale_rule, ATTN_RESCALE_UNKNOWN, ATTN_RESCALE_BY_FMA, kChoice},
      {"tile_order", p.tile_order, ATTN_TILE_ANY, ATTN_TILE_ASCENDING, kChoice},
      {"sum_run", p.sum_run, 0, kMostRows, kChoice},
      {"merge_order", p.merge_order, ATTN_MERGE_ANY, ATTN_MERGE_BY_FOURS, kChoice},
      {"norm_rule", p.norm_rule, ATTN_NORM_UNKNOWN, ATTN_NORM_BY_RECIPROCAL, kChoice},
      {"lse_rule", p.lse_rule, ATTN_LSE_UNKNOWN, ATTN_LSE_BY_FMA, kChoice},
      {"merge_format", p.merge_format, ATTN_FORMAT_UNKNOWN, ATTN_FORMAT_OF_INPUT, "0 means: fp32"},
      {"lse_dead", p.lse_dead, ATTN_LSE_DEAD_MINUS_INF, ATTN_LSE_DEAD_ANY, "0 means: -inf"},
  };
  for (const Limit& limit : limits) {
    if (limit.value >= limit.low && limit.value <= limit.high) continue;
    return std::string(limit.field) + " is " + std::to_string(limit.value) + ", must be " +
           std::to_string(limit.low) + ".." + std::to_string(limit.high) + " (" + limit.advice + ")";
  }
  // Written so that a NaN is refused, too.
  if (!(p.exp_error >= 0 && p.exp_error < 0.25f))
    return "exp_error is " + std::to_string(p.exp_error) + ", must be 0 (as exp_class says) or below 0.25";
  for (const auto& [field, scale] : {std::pair{"p_scale", p.p_scale}, std::pair{"v_scale", p.v_scale}}) {
    if (scale == 0 || (scale >= 0x1p-60f && scale <= 0x1p60f)) continue;
    return std::string(field) + " is " + std::to_string(scale) +
           ", must be 0 (it stays as it is) or 2^-60..2^60";
  }
  const float most = p.p_format == ATTN_FORMAT_E4M3 ? 448 : p.p_format == ATTN_FORMAT_E5M2 ? 57344 : INFINITY;
  if (p.p_scale > most)
    return "p_scale is " + std::to_string(p.p_scale) + ", must be at most " + std::to_string(most) +
           ": a P of 1 times that overflows p_format";
  if (p.max_rule == ATTN_MAX_RUNNING && p.key_order != ATTN_KEYS_ASCENDING &&
      p.key_order != ATTN_KEYS_DESCENDING)
    return "max_rule is ATTN_MAX_RUNNING, which needs a key_order that is ascending or descending";
  if (p.qk_format != ATTN_FORMAT_UNKNOWN && p.qk_format != ATTN_FORMAT_TF32)
    return "qk_format is " + std::to_string(p.qk_format) +
           ", must be 0 (Q and K stay as they are) or 5 (ATTN_FORMAT_TF32)";
  if (p.lse_base != 0 && p.lse_base != 2)
    return "lse_base is " + std::to_string(p.lse_base) + ", must be 0 (e) or 2";
  if (!std::has_single_bit(p.workspace_align)) {
    return "workspace_align is " + std::to_string(p.workspace_align) + ", must be a power of two";
  }
  return std::nullopt;
}

}  // namespace attnfuzz
