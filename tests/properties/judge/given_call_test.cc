#include "properties/judge/given_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

using enum TensorId;

// A case with one head, two queries, two keys and two columns.
Case two_keys() {
  Case c;
  c.problem.seq_q = c.problem.seq_k = 2;
  c.problem.dim_qk = c.problem.dim_v = 2;
  return c;
}
// Q is 0, so O is the mean of V.
const std::vector<GivenInput> kInputs = {{kQ, {0, 0, 0, 0}}, {kK, {1, 2, 3, 4}}, {kV, {1, 2, 3, 6}}};

TEST(GivenCall, RunsOnTheGivenElements) {
  FakeTarget target;
  const GivenCall call = judge_given(two_keys(), kInputs, target, documented());
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
    const GivenCall call = judge_given(two_keys(), kInputs, target, documented());
    EXPECT_EQ(call.verdict.outcome, Outcome::kFail);
    EXPECT_EQ(call.verdict.kind, kind) << call.verdict.message;
  }
}

// If the oracle cannot bound most rows, the call does not pass. Here the error of the scores overflows the
// exponential.
TEST(GivenCall, IsNotJudgedIfMostRowsAreUnconstrained) {
  std::vector<GivenInput> inputs = kInputs;
  inputs[0].elements = {60000, 60000, 60000, 60000};
  inputs[1].elements = {60000, 59968, 59968, 60000};
  FakeTarget target;
  const GivenCall call = judge_given(two_keys(), inputs, target, documented());
  EXPECT_EQ(call.verdict.sampled, 2);
  EXPECT_EQ(call.verdict.unconstrained_rows + call.verdict.uninformative_rows, 2);
  EXPECT_EQ(call.verdict.outcome, Outcome::kNotJudged);
}

TEST(GivenCall, SeesAGivenInputThatWasWritten) {
  std::vector<GivenInput> inputs = kInputs;
  inputs[0].elements = {1, 1, 1, 1};
  FakeTarget target(Flaw::kWritesInput);
  const GivenCall call = judge_given(two_keys(), inputs, target, documented());
  EXPECT_EQ(call.verdict.kind, Kind::kInputChanged);
  EXPECT_EQ(call.verdict.message, "the input q was written at (0,0,0,0)");
}

// A case file holds the given numbers one by one.
TEST(OrdinaryCases, TheSecondHasTheNumbersOfTheCall) {
  const std::vector<Case> cases = ordinary_cases(two_keys(), kInputs);
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[0], two_keys());
  EXPECT_EQ(cases[1].planted.size(), 8u);  // the numbers that are not 0
  EXPECT_EQ(illegal(cases[1]), std::nullopt);
  FakeTarget target;
  const GivenCall call = judge_given(cases[1], {}, target, documented());
  EXPECT_THAT(call.outputs[kO], testing::ElementsAre(2, 4, 2, 4)) << call.verdict.message;
}

TEST(OrdinaryCases, TooManyNumbersAreLeftOut) {
  Case c = two_keys();
  c.problem.seq_k = 40'000;
  const GivenInput inputs[] = {{kK, std::vector<float>(80'000, 1.0f)}};
  EXPECT_EQ(ordinary_cases(c, inputs).size(), 1u);
}

}  // namespace
}  // namespace attnfuzz
