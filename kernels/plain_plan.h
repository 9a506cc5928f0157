// The plan of a small kernel: fp32 arithmetic with a fused multiply-add, expf, one
// pass over all keys. For kernels that are there to be wrong in one way, and else right.
//
//   *plan = plain_plan("canary", kTile, problem->seq_k);
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "kernels/attention.h"

inline attn_plan plain_plan(const char* path, int64_t tile, int64_t seq_k) {
  attn_plan plan = {};
  plan.size = sizeof plan;
  snprintf(plan.path, sizeof plan.path, "%s", path);
  plan.tile_q = plan.tile_k = tile;
  plan.num_splits = 1;
  plan.split_tiles = (seq_k + tile - 1) / tile;
  plan.rescales = 1;
  plan.accumulator = ATTN_ACC_FFMA;
  plan.exp_class = ATTN_EXP_FAST_EXPF;
  plan.log_class = ATTN_LOG_LOGF;
  plan.rcp_class = ATTN_RCP_EXACT;
  plan.scale_mode = ATTN_SCALE_SEPARATE;
  plan.p_format = ATTN_FORMAT_F32;
  plan.deterministic = 1;
  plan.workspace_align = 1;
  return plan;
}
