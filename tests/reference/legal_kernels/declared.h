// Declarations of plans: every field, as the shipped kernels do, or anything at random.
#pragma once

#include "kernels/attention.h"
#include "tests/reference/random.h"

namespace attnfuzz {

// Declares the same as the plans of fa1 and splitk.
inline void declare_all(attn_plan* plan) {
  plan->key_order = ATTN_KEYS_ASCENDING;
  plan->max_rule = ATTN_MAX_RUNNING;
  plan->sum_lanes = 4;
  plan->dot_order = ATTN_DOT_ASCENDING;
  plan->merge_rule = ATTN_MERGE_BY_WEIGHT;
  plan->p_order = ATTN_P_UNNORMALISED;
}

// Declares any legal combination.
inline void declare_any(Random* random, attn_plan* plan) {
  const auto one_in = [&](int64_t n) { return random->below(n) == 0; };
  plan->key_order = static_cast<int32_t>(random->below(4));
  const bool ordered = plan->key_order == ATTN_KEYS_ASCENDING || plan->key_order == ATTN_KEYS_DESCENDING;
  plan->max_rule = one_in(3) ? ATTN_MAX_WHOLE : ordered && !one_in(4) ? ATTN_MAX_RUNNING : ATTN_MAX_UNKNOWN;
  plan->sum_rule = one_in(5);
  plan->sum_lanes = static_cast<int32_t>(random->below(3)) * 2;
  plan->dot_order = static_cast<int32_t>(random->below(2));
  plan->merge_rule = static_cast<int32_t>(random->below(4));
  plan->conversion = one_in(4);
  plan->scale_mode = static_cast<int32_t>(random->below(5));
  if (one_in(6)) plan->p_format = ATTN_FORMAT_F32;
  if (one_in(8)) plan->p_format = ATTN_FORMAT_E4M3, plan->p_scale = 256;
  if (one_in(8)) plan->p_format = ATTN_FORMAT_E5M2;
  if (one_in(8)) plan->p_format = one_in(2) ? ATTN_FORMAT_F16 : ATTN_FORMAT_BF16;
  if (one_in(6)) plan->p_scale = one_in(2) ? 16 : 3;
  if (one_in(8)) plan->v_format = ATTN_FORMAT_E4M3, plan->v_scale = 8;
  if (one_in(8)) plan->v_format = ATTN_FORMAT_E5M2, plan->v_scale = one_in(2) ? 0 : 0.75f;
  if (one_in(12)) plan->v_format = one_in(2) ? ATTN_FORMAT_F16 : ATTN_FORMAT_BF16;
  if (one_in(4)) plan->exp_error = 0x1p-13f;
  if (one_in(4)) plan->partial_format = ATTN_FORMAT_OF_INPUT;
  if (one_in(4)) plan->flush_to_zero = 0;
  if (one_in(5)) plan->mma_block = 0;
  if (one_in(5)) plan->merge_format = ATTN_FORMAT_OF_INPUT;
  Random apart = *random;  // the draws that follow stay as they were
  plan->p_order = static_cast<int32_t>(apart.below(3));
  const bool divides_last = plan->max_rule == ATTN_MAX_RUNNING || plan->sum_rule == ATTN_SUM_OF_ROUNDED_P ||
                            plan->merge_format == ATTN_FORMAT_OF_INPUT;
  if (divides_last) plan->p_order %= 2;
}

}  // namespace attnfuzz
