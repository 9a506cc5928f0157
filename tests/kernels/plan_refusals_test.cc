// Tests refusals that are not about sizes or tensors, and their words.
#include <algorithm>

#include "tests/kernels/offer.h"

namespace attnfuzz {
namespace {

class PlanRefusals : public PlanTest {};
class StageRefusals : public PlanTest {};  // the kernel with splits

TEST_P(PlanRefusals, ContractsOfAnotherSize) {
  refuses(ATTN_INVALID, "attn_problem", [](Offer& x) { x.problem.size = ATTN_PROBLEM_MIN - 1; });
  refuses(ATTN_INVALID, "attn_tensors", [](Offer& x) { x.tensors.size = ATTN_TENSORS_MIN - 1; });
  refuses(ATTN_INVALID, "attn_env", [](Offer& x) { x.env.size = ATTN_ENV_MIN - 1; });
  accepts("an older contract", [](Offer& x) {
    x.problem.features = 1;  // beyond the older struct's size, so not read
    x.problem.size = ATTN_PROBLEM_MIN, x.tensors.size = ATTN_TENSORS_MIN, x.env.size = ATTN_ENV_MIN;
  });
  accepts("a newer contract", [](Offer& x) { x.problem.size += 8, x.tensors.size += 8, x.env.size += 8; });
}

TEST_P(PlanRefusals, FeaturesThatItDoesNotKnow) {
  refuses(ATTN_UNSUPPORTED, "features", [](Offer& x) { x.problem.features = uint64_t{1} << 63; });
}

TEST_P(PlanRefusals, APlanStaysWithinTheCallersSize) {
  const Offer offer;
  struct {
    attn_plan plan = {};
    unsigned char beyond = 0x5a;
  } room;
  char reason[256] = "";
  const auto plan = [&](uint32_t size) {
    room.plan.size = size;
    return kernel().plan(&offer.problem, &offer.tensors, &offer.env, &room.plan, reason, sizeof reason);
  };
  EXPECT_EQ(plan(ATTN_PLAN_MIN - 1), ATTN_INVALID);
  EXPECT_NE(std::string(reason).find("attn_plan"), std::string::npos) << reason;
  EXPECT_EQ(plan(ATTN_PLAN_MIN), ATTN_OK) << reason;
  EXPECT_EQ(room.plan.size, ATTN_PLAN_MIN);
  EXPECT_EQ(plan(sizeof room), ATTN_OK) << reason;
  EXPECT_EQ(room.plan.size, sizeof room.plan);
  EXPECT_EQ(room.beyond, 0x5a);
}

TEST_P(PlanRefusals, Switches) {
  accepts("bf16", [](Offer& x) { x.problem.dtype = ATTN_BF16; });
  refuses(ATTN_INVALID, "dtype", [](Offer& x) { x.problem.dtype = ATTN_F32; });
  for (float scale : {0.0f, -1.0f, 3e38f}) accepts("scale", [&](Offer& x) { x.problem.scale = scale; });
  refuses(ATTN_INVALID, "scale", [](Offer& x) { x.problem.scale = -__builtin_inff(); });
  refuses(ATTN_INVALID, "softcap", [](Offer& x) { x.problem.softcap = -1e-30f; });
  refuses(ATTN_INVALID, "softcap", [](Offer& x) { x.problem.softcap = __builtin_inff(); });
  refuses(ATTN_INVALID, "softcap", [](Offer& x) { x.problem.softcap = __builtin_nanf(""); });
  accepts("softcap", [](Offer& x) { x.problem.softcap = 1e-30f; });
  accepts("bottom right", [](Offer& x) { x.problem.align = ATTN_BOTTOM_RIGHT; });
  for (int32_t align : {-1, 2}) refuses(ATTN_INVALID, "align", [&](Offer& x) { x.problem.align = align; });
  for (int32_t dtype : {ATTN_NONE - 1, ATTN_F32 + 1})
    refuses(ATTN_INVALID, "bias_dtype", [&](Offer& x) {
      x.problem.bias_dtype = dtype;
      x.tensors.bias = x.tensors.q;
    });
}

TEST_P(PlanRefusals, Environments) {
  refuses(ATTN_INVALID, "env.backend", [](Offer& x) { x.env.backend = ATTN_CUDA; });
  refuses(ATTN_INVALID, "env.sm_count = 0", [](Offer& x) { x.env.sm_count = 0; });
  accepts("one multiprocessor", [](Offer& x) { x.env.sm_count = 1; });
  refuses(ATTN_UNSUPPORTED, "compute capability 8.0", [](Offer& x) { x.env.compute_capability = 75; });
  accepts("sm_80", [](Offer& x) { x.env.compute_capability = 80; });
  const auto count = static_cast<int32_t>(kernel().variant_count);
  for (int32_t variant : {-1, count + 1})
    refuses(ATTN_INVALID, ("variant " + std::to_string(variant)).c_str(),
            [&](Offer& x) { x.env.variant = variant; });
}

// run() returns before it launches anything, because the tensors do not exist.
TEST_P(PlanRefusals, RunRefusesTheSameProblems) {
  const auto run = [&](const std::function<void(Offer&)>& change) {
    Offer offer;
    change(offer);
    attn_plan plan = {};
    plan.size = sizeof plan;
    return kernel().run(&offer.problem, &offer.tensors, &plan, &offer.env);
  };
  EXPECT_EQ(run([](Offer& x) { x.env.sm_count = 0; }), ATTN_INVALID);
  EXPECT_EQ(run([](Offer& x) { x.env.shared_memory_limit = 1; }), ATTN_UNSUPPORTED);
  for (int64_t attn_problem::* none : {&attn_problem::batch, &attn_problem::seq_q})
    EXPECT_EQ(run([&](Offer& x) { x.problem.*none = 0; }), ATTN_OK) << "nothing to do";
  EXPECT_EQ(run([](Offer& x) { x.problem.heads_q = x.problem.heads_kv = 0; }), ATTN_OK) << "nothing to do";
}

TEST_P(StageRefusals, StagesRefuseAWorkspaceTheyCannotUse) {
  alignas(16) static char memory[32] = {};
  Offer offer;
  offer.problem.num_splits = 2;
  const attn_plan plan = ask(offer).plan;
  for (const auto stage : {kernel().run, kernel().partial, kernel().reduce}) {
    for (const auto& [at, bytes] : {std::pair<char*, uint64_t>{nullptr, plan.workspace_bytes},
                                    {memory, plan.workspace_bytes - 1},
                                    {memory + 8, plan.workspace_bytes}}) {
      offer.tensors.workspace = at, offer.tensors.workspace_bytes = bytes;
      EXPECT_EQ(stage(&offer.problem, &offer.tensors, &plan, &offer.env), ATTN_INVALID);
    }
  }
}

TEST_P(PlanRefusals, ReasonsStayInTheirBuffer) {
  const std::function<void(Offer&)> changes[] = {
      [](Offer& x) { x.env.sm_count = 0; },
      [](Offer& x) { x.env.shared_memory_limit = 1; },
      [](Offer& x) { x.problem.batch = kGrid + 1, x.problem.seq_q = 1, x.dense(); },
  };
  for (const auto& change : changes) {
    Offer offer;
    change(offer);
    const std::string whole = ask(offer).reason;
    ASSERT_FALSE(whole.empty());
    attn_plan plan = {};
    for (size_t size :
         {size_t{0}, size_t{1}, size_t{2}, size_t{9}, whole.size(), whole.size() + 1, whole.size() + 9}) {
      std::string buffer(300, '#'), expected = buffer;
      EXPECT_NE(kernel().plan(&offer.problem, &offer.tensors, &offer.env, &plan, buffer.data(), size), ATTN_OK);
      // As much of the reason as fits, a terminator, and nothing beyond the buffer.
      if (size > 0) expected.replace(0, std::min(size, whole.size() + 1), whole.substr(0, size - 1) + '\0');
      EXPECT_EQ(buffer, expected) << size;
    }
    EXPECT_NE(kernel().plan(&offer.problem, &offer.tensors, &offer.env, &plan, nullptr, 64), ATTN_OK);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, StageRefusals, testing::Values("splitk"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Kernels, PlanRefusals, testing::Values("fa1", "splitk"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace attnfuzz
