#include "fuzz/host/answer_checks.h"

#include <gtest/gtest.h>

#include <functional>

namespace attnfuzz {
namespace {

attn_plan sound() {
  attn_plan plan = {};
  plan.size = sizeof plan;
  plan.tile_q = plan.tile_k = plan.num_splits = 1;
  plan.workspace_align = 16;
  return plan;
}

TEST(Nonsense, LetsASoundPlanPass) { EXPECT_FALSE(nonsense(sound())); }

TEST(Nonsense, LetsAPlanOfTheFirstContractPass) {
  attn_plan plan = sound();
  plan.size = ATTN_PLAN_MIN;
  EXPECT_FALSE(nonsense(plan));
}

TEST(Nonsense, NamesTheField) {
  const struct {
    const char* field;
    std::function<void(attn_plan&)> spoil;
  } cases[] = {
      {"plan.size", [](attn_plan& p) { p.size = 8; }},
      {"plan.path", [](attn_plan& p) { std::fill(std::begin(p.path), std::end(p.path), 'x'); }},
      {"plan.tile_q", [](attn_plan& p) { p.tile_q = 0; }},
      {"plan.tile_k", [](attn_plan& p) { p.tile_k = -64; }},
      {"plan.num_splits", [](attn_plan& p) { p.num_splits = 0; }},
      {"plan.merges", [](attn_plan& p) { p.merges = -1; }},
      {"plan.exp_class", [](attn_plan& p) { p.exp_class = 99; }},
      {"plan.p_format", [](attn_plan& p) { p.p_format = -1; }},
      {"plan.deterministic", [](attn_plan& p) { p.deterministic = 2; }},
      {"plan.workspace_bytes", [](attn_plan& p) { p.workspace_bytes = ~uint64_t{0}; }},
      {"plan.workspace_align", [](attn_plan& p) { p.workspace_align = 24; }},
      {"plan.workspace_align", [](attn_plan& p) { p.workspace_align = 0; }},
  };
  for (const auto& c : cases) {
    attn_plan plan = sound();
    c.spoil(plan);
    const auto why = nonsense(plan);
    ASSERT_TRUE(why) << c.field;
    EXPECT_EQ(why->rfind(c.field, 0), 0u) << *why;
  }
}

}  // namespace
}  // namespace attnfuzz
