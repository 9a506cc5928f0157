// Tests that the picture of a finding does not call rows right if the failure lies elsewhere.
#include <gmock/gmock.h>

#include "fuzz/campaign/triage/files/case_picture.h"
#include "properties/judge/trial.h"
#include "tests/fuzz/batch/oracle_target.h"
#include "tests/fuzz/campaign/append_target.h"

namespace attnfuzz {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

CasePicture picture_of(const Case& c, Target& target) {
  return take_picture(c, "reference", "wrong", target, documented());
}

Case with(uint64_t operation) {
  Case c;
  c.problem.features = operation;
  c.problem.seq_q = 2, c.problem.seq_k = 3, c.problem.dim_qk = c.problem.dim_v = 4;
  tidy(c);
  return c;
}

// The first element of dK is twice as large.
class DoublesDk : public OracleTarget {
 public:
  DoublesDk() : OracleTarget(nullptr, kBackward) {}
  RunReply run(Stage stage, const attn_problem& p, const attn_tensors& t, const attn_plan& plan,
               const attn_env& env, int stream) override {
    const RunReply reply = OracleTarget::run(stage, p, t, plan, env, stream);
    *static_cast<uint16_t*>(t.dk.data) += 1 << 10;
    return reply;
  }
};

TEST(PictureOfFinding, HasNoRightRowsIfAnOutputOfKeysIsWrong) {
  DoublesDk target;
  const CasePicture picture = picture_of(with(ATTN_FEATURE_BACKWARD), target);
  EXPECT_THAT(picture.error, IsEmpty());
  EXPECT_THAT(picture.why, HasSubstr("no row of a query shows it: dk("));
}

TEST(PictureOfFinding, HasNoRightRowsIfACacheIsWrong) {
  AppendTarget target(AppendTarget::Bug::kSkipsLast);
  Case append = with(ATTN_FEATURE_APPEND);
  append.problem.key_lengths = {0};
  append.k.kind = append.v.kind = FillKind::kPosition;
  const CasePicture picture = picture_of(append, target);
  EXPECT_THAT(picture.error, IsEmpty());
  EXPECT_THAT(picture.why, HasSubstr("no row of a query shows it: cache_"));
}

TEST(PictureOfFinding, ShowsRowsThatAreWrong) {
  FakeTarget target(Flaw::kConstantAdded);
  const CasePicture picture = picture_of(with(0), target);
  ASSERT_EQ(picture.error.size(), 2u);
  EXPECT_GT(picture.error[0], 1);
  EXPECT_EQ(picture.why, "");
}

TEST(PictureOfFinding, SaysIfItDoesNotFail) {
  FakeTarget target;
  const CasePicture picture = picture_of(with(0), target);
  EXPECT_EQ(picture.error.size(), 2u);
  EXPECT_EQ(picture.why, "Run again for this picture, it did not fail.");
}

}  // namespace
}  // namespace attnfuzz
