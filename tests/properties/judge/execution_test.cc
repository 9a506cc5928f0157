// Tests Execution, which runs a case: the reasons that stop it, and the outputs of a run.
#include "properties/judge/execution.h"

#include <gtest/gtest.h>

#include "properties/judge/property.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

Case two_heads() {
  Case c;
  c.problem.heads_q = c.problem.heads_kv = 2;
  c.problem.seq_q = c.problem.seq_k = 9;
  return c;
}

// Plans as the fake does, and then `change` changes the plan.
class Replanning final : public FakeTarget {
 public:
  explicit Replanning(void (*change)(PlanReply&)) : change_(change) {}
  PlanReply plan(const attn_problem& p, const attn_tensors& t, const attn_env& env) override {
    PlanReply reply = FakeTarget::plan(p, t, env);
    change_(reply);
    return reply;
  }

 private:
  void (*change_)(PlanReply&);
};

TEST(Execution, ReturnsTheOutputsThatTheOracleExpects) {
  FakeTarget target;
  Execution e(two_heads(), target);
  ASSERT_EQ(e.why_not(), "");
  EXPECT_EQ(failure(e.run(Call{})), "");
  const Reference reference = e.evaluate(documented());
  const Outputs got = e.outputs();
  ASSERT_EQ(reference.outputs.size(), 2u);
  for (const Expected& expected : reference.outputs) {
    ASSERT_EQ(got[expected.tensor].size(), expected.value.size()) << name_of(expected.tensor);
    for (int64_t row = 0; row < reference.rows; ++row)
      EXPECT_LE(expected.ratio(row, 0, got[expected.tensor][row]), 1);
  }
  EXPECT_TRUE(got[TensorId::kQ].empty()) << "an input is no output";
  EXPECT_GT(e.lay_out_s, 0);
  EXPECT_GT(e.kernel_s, 0);
}

TEST(Execution, SaysWhyItCannotRun) {
  const struct {
    void (*change)(PlanReply&);
    const char* why;
  } plans[] = {
      {[](PlanReply& r) { r.plan.workspace_bytes = uint64_t{1} << 40; }, "workspace_bytes is 1099511627776"},
      {[](PlanReply& r) { r.plan.workspace_align = uint64_t{1} << 21; }, "workspace_align is 2097152"},
      {[](PlanReply& r) { r.plan.tile_k = 0; }, "tile_k"},
      {[](PlanReply& r) { r.status = ATTN_UNSUPPORTED, r.reason = "no such thing"; }, "no such thing"},
      {[](PlanReply& r) { r.crash = "SIGSEGV"; }, "SIGSEGV"},
  };
  for (const auto& plan : plans) {
    Replanning target(plan.change);
    const Execution e(two_heads(), target);
    EXPECT_NE(e.why_not().find(plan.why), std::string::npos) << e.why_not();
    EXPECT_EQ(e.laid.tensors().workspace, nullptr) << "no workspace is laid out for " << plan.why;
  }
}

TEST(Execution, AnOutputThatIsNotWantedIsEmpty) {
  FakeTarget target;
  Case c = two_heads();
  c.want_lse = false;
  Execution e(c, target);
  ASSERT_EQ(failure(e.run(Call{})), "");
  const Outputs got = e.outputs();
  EXPECT_EQ(got[TensorId::kO].size(), 18u);
  EXPECT_TRUE(got[TensorId::kLse].empty());
}

TEST(Operation, APropertyIsForItsOwnOperation) {
  const FakeTarget target;
  Property property = *find_property("reference");
  EXPECT_TRUE(speaks_of(property, target.info()));
  const Operation other = {.name = "other",
                           .feature = uint64_t{1} << 60,
                           .inputs = {},
                           .outputs = {},
                           .evaluate = nullptr,
                           .known = {"nobody", 0}};
  property.operation = &other;
  EXPECT_FALSE(speaks_of(property, target.info()));
}

}  // namespace
}  // namespace attnfuzz
