#include "properties/train_step/given_call.h"

#include <gtest/gtest.h>

#include "tests/properties/support/fake_target.h"

namespace attnfuzz::train {
namespace {

using enum TensorId;

// One head, two queries and keys, two columns.
Case small() {
  Case c;
  c.problem.seq_q = c.problem.seq_k = 2;
  c.problem.dim_qk = c.problem.dim_v = 2;
  return c;
}
// Q is 0: O is the mean of V.
const std::vector<GivenInput> kInputs = {{kQ, {0, 0, 0, 0}}, {kK, {1, 2, 3, 4}}, {kV, {1, 2, 3, 6}}};

TEST(GivenCall, RunsOnTheGivenElements) {
  FakeTarget target;
  const GivenCall call = judge_given(small(), kInputs, target, documented());
  EXPECT_EQ(call.verdict.outcome, Outcome::kPass) << call.verdict.message;
  EXPECT_THAT(call.outputs[kO], testing::ElementsAre(2, 4, 2, 4));
  EXPECT_THAT(call.reference[kO].value, testing::ElementsAre(2, 4, 2, 4));
}

TEST(GivenCall, JudgesACallAsATrialDoes) {
  const std::pair<Flaw, Kind> flaws[] = {{Flaw::kConstantAdded, Kind::kWrong},
                                         {Flaw::kWritesPast, Kind::kRedzone},
                                         {Flaw::kSkipsLastRow, Kind::kUnwritten}};
  for (const auto& [flaw, kind] : flaws) {
    FakeTarget target(flaw);
    const GivenCall call = judge_given(small(), kInputs, target, documented());
    EXPECT_EQ(call.verdict.outcome, Outcome::kFail);
    EXPECT_EQ(call.verdict.kind, kind) << call.verdict.message;
  }
}

TEST(GivenCall, SeesAGivenInputThatWasWritten) {
  std::vector<GivenInput> inputs = kInputs;
  inputs[0].elements = {1, 1, 1, 1};
  FakeTarget target(Flaw::kWritesInput);
  const GivenCall call = judge_given(small(), inputs, target, documented());
  EXPECT_EQ(call.verdict.kind, Kind::kInputChanged);
  EXPECT_EQ(call.verdict.message, "the input q was written at (0,0,0,0)");
}

}  // namespace
}  // namespace attnfuzz::train
