#include "properties/judge/bad_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

namespace attnfuzz {
namespace {

attn_plan sound() {
  attn_plan plan = {};
  plan.size = sizeof plan;
  plan.tile_q = plan.tile_k = plan.num_splits = 1;
  plan.workspace_align = 1;
  return plan;
}

TEST(BadPlan, LetsASoundOnePass) {
  EXPECT_FALSE(bad_plan(sound()));
  attn_plan large = sound();
  large.tile_q = large.tile_k = 1 << 20;
  large.workspace_align = 1 << 20;
  large.max_rule = ATTN_MAX_RUNNING;
  large.key_order = ATTN_KEYS_DESCENDING;
  large.exp_error = 0x1p-13f;
  large.p_scale = 256;
  large.mma_block = large.sum_lanes = 1 << 16;
  large.norm_rule = ATTN_NORM_BY_RECIPROCAL;
  large.flush_to_zero = large.isolates_masked_nan = large.deterministic = 1;
  large.qk_format = ATTN_FORMAT_TF32;
  large.p_format = ATTN_FORMAT_E4M3, large.v_format = ATTN_FORMAT_BF16;
  large.p_order = ATTN_P_UNNORMALISED;
  EXPECT_FALSE(bad_plan(large)) << *bad_plan(large);
  large.key_order = ATTN_KEYS_ASCENDING;
  EXPECT_FALSE(bad_plan(large)) << *bad_plan(large);
  large.max_rule = ATTN_MAX_WHOLE, large.p_order = ATTN_P_NORMALISED;
  EXPECT_FALSE(bad_plan(large)) << *bad_plan(large);
}

TEST(BadPlan, NamesTheFieldAndItsLegalValues) {
  const struct {
    const char* complaint;
    std::function<void(attn_plan&)> spoil;
  } cases[] = {
      {"size is 8, must be at least", [](attn_plan& p) { p.size = 8; }},
      {"path has no", [](attn_plan& p) { std::fill(std::begin(p.path), std::end(p.path), 'x'); }},
      {"tile_q is 0, must be 1..1048576 (1 will do for a kernel without tiles)",
       [](attn_plan& p) { p.tile_q = 0; }},
      {"tile_k is -64", [](attn_plan& p) { p.tile_k = -64; }},
      {"tile_k is 1048577", [](attn_plan& p) { p.tile_k = (1 << 20) + 1; }},
      {"num_splits is 0", [](attn_plan& p) { p.num_splits = 0; }},
      {"num_splits is 4294967296", [](attn_plan& p) { p.num_splits = int64_t{1} << 32; }},
      {"merges is -1", [](attn_plan& p) { p.merges = -1; }},
      {"mma_block is -1", [](attn_plan& p) { p.mma_block = -1; }},
      {"exp_class is 99", [](attn_plan& p) { p.exp_class = 99; }},
      {"p_format is -1", [](attn_plan& p) { p.p_format = -1; }},
      {"deterministic is 2", [](attn_plan& p) { p.deterministic = 2; }},
      {"workspace_bytes is 18446744073709551615", [](attn_plan& p) { p.workspace_bytes = ~uint64_t{0}; }},
      {"workspace_align is 24, must be a power of two", [](attn_plan& p) { p.workspace_align = 24; }},
      {"workspace_align is 2097152, must be 1..1048576", [](attn_plan& p) { p.workspace_align = 1 << 21; }},
      {"workspace_align is 0", [](attn_plan& p) { p.workspace_align = 0; }},
      {"key_order is 4", [](attn_plan& p) { p.key_order = 4; }},
      {"sum_lanes is -1", [](attn_plan& p) { p.sum_lanes = -1; }},
      {"score_rule is 3", [](attn_plan& p) { p.score_rule = 3; }},
      {"sum_run is -2", [](attn_plan& p) { p.sum_run = -2; }},
      {"lse_rule is 3", [](attn_plan& p) { p.lse_rule = 3; }},
      {"merge_format is 3, must be 0..2", [](attn_plan& p) { p.merge_format = ATTN_FORMAT_E4M3; }},
      {"lse_base is 10, must be 0 or 2 (0 means: e)", [](attn_plan& p) { p.lse_base = 10; }},
      {"lse_dead is 4, must be 0..3", [](attn_plan& p) { p.lse_dead = 4; }},
      {"exp_error is nan", [](attn_plan& p) { p.exp_error = NAN; }},
      {"exp_error is 0.5", [](attn_plan& p) { p.exp_error = 0.5f; }},
      {"p_format is 8, must be 0..7", [](attn_plan& p) { p.p_format = ATTN_FORMAT_BF16 + 1; }},
      {"partial_format is 7", [](attn_plan& p) { p.partial_format = ATTN_FORMAT_BF16; }},
      {"p_scale is 512.000000, must be at most 448",
       [](attn_plan& p) { p.p_format = ATTN_FORMAT_E4M3, p.p_scale = 512; }},
      {"p_scale is 65536.000000, must be at most 57344",
       [](attn_plan& p) { p.p_format = ATTN_FORMAT_E5M2, p.p_scale = 65536; }},
      {"p_scale is -1.0", [](attn_plan& p) { p.p_scale = -1; }},
      {"v_scale is inf", [](attn_plan& p) { p.v_scale = INFINITY; }},
      {"max_rule is ATTN_MAX_RUNNING, which needs a key_order", [](attn_plan& p) { p.max_rule = 1; }},
      {"mma_block is 65537", [](attn_plan& p) { p.mma_block = 65537; }},
      {"sum_lanes is 65537", [](attn_plan& p) { p.sum_lanes = 65537; }},
      {"norm_rule is 2, must be 0..1", [](attn_plan& p) { p.norm_rule = ATTN_NORM_BY_RECIPROCAL + 1; }},
      {"flush_to_zero is -1", [](attn_plan& p) { p.flush_to_zero = -1; }},
      {"isolates_masked_nan is 2", [](attn_plan& p) { p.isolates_masked_nan = 2; }},
      {"qk_format is 1", [](attn_plan& p) { p.qk_format = 1; }},
      {"p_order is 3, must be 0..2 (0 means: not known)", [](attn_plan& p) { p.p_order = 3; }},
      {"p_order is ATTN_P_NORMALISED, but with max_rule ATTN_MAX_RUNNING the sum divides O at the end",
       [](attn_plan& p) {
         p.p_order = ATTN_P_NORMALISED, p.max_rule = ATTN_MAX_RUNNING, p.key_order = ATTN_KEYS_ASCENDING;
       }},
      {"p_order is ATTN_P_NORMALISED, but with sum_rule",
       [](attn_plan& p) { p.p_order = ATTN_P_NORMALISED, p.sum_rule = ATTN_SUM_OF_ROUNDED_P; }},
      {"p_order is ATTN_P_NORMALISED, but with merge_format",
       [](attn_plan& p) { p.p_order = ATTN_P_NORMALISED, p.merge_format = ATTN_FORMAT_OF_INPUT; }},
  };
  for (const auto& c : cases) {
    attn_plan plan = sound();
    c.spoil(plan);
    const std::string why = bad_plan(plan).value_or("");
    EXPECT_EQ(why.rfind(c.complaint, 0), 0u) << c.complaint << ": " << why;
  }
}

}  // namespace
}  // namespace attnfuzz
