// Tests whether a kernel whose plan leaves its arithmetic open is consistent with fp32 (tighter.h).
#include "fuzz/check/tighter.h"

#include <gtest/gtest.h>

#include "fuzz/check/check.h"
#include "reference/model/arithmetic_table.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

// Computes in fp32, and its plan leaves the arithmetic open. Its scale has the relative error `off`.
class Silent : public FakeTarget {
 public:
  explicit Silent(float off) : off_(off) {}
  PlanReply plan(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) override {
    PlanReply reply = FakeTarget::plan(problem, tensors, env);
    attn_plan& p = reply.plan;
    p.accumulator = p.exp_class = p.scale_mode = p.p_format = 0;
    p.exp_error = 0;
    return reply;
  }
  RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    EXPECT_EQ(plan.accumulator + plan.exp_class + plan.scale_mode + plan.p_format, 0) << "it gets its own plan";
    attn_problem other = problem;
    other.scale *= 1 + off_;
    return FakeTarget::run(stage, other, tensors, plan, env, stream);
  }

 private:
  const float off_;
};

Tighter tried(Silent target) {
  CheckOptions options;
  options.refused = Refused{};
  return try_fp32(target, config_for(target, options), executor(), 60, 60);
}

TEST(Tighter, TellsFp32FromTheLoosestClasses) {
  const Tighter exact = tried(Silent(0));
  EXPECT_TRUE(exact.consistent()) << words(exact);
  EXPECT_EQ(words(exact).find("consistent with fp32 accumulation: "), 0u) << words(exact);
  // As if Q times the scale were rounded to fp16: within the assumed bound, but not within that of fp32.
  const Tighter folded = tried(Silent(0x1p-12f));
  EXPECT_FALSE(folded.consistent());
  EXPECT_GT(folded.outside, 0);
  EXPECT_EQ(words(folded).find("not consistent"), 0u) << words(folded);
}

TEST(Tighter, NamesTheAssumptionThatCostsMost) {
  const Tighter t = tried(Silent(0));
  EXPECT_GT(t.uninformative, 0);
  EXPECT_LT(t.still, t.uninformative);
  EXPECT_NE(t.costs.find("scaling not known"), std::string::npos) << t.costs;
  EXPECT_LT(t.without, t.uninformative);
  using Part = Assumption::Part;
  EXPECT_TRUE(leaves_fp32_open({{Part::kLog, ""}, {Part::kScaling, "folded into a 16-bit Q"}}));
  EXPECT_FALSE(leaves_fp32_open({{Part::kLog, "the loosest documented class"}}));
}

}  // namespace
}  // namespace attnfuzz
