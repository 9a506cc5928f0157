// Tests verdicts of two oracles. A case that passes by the fast oracle passes; a failure is judged again by the
// CPU's; if the two disagree, that is a failure of its own kind.
#include "properties/judge/oracles.h"

#include <gtest/gtest.h>

#include "properties/judge/trial.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

// A fast oracle that changes the CPU oracle's reference.
class ChangedOracle final : public FastOracle {
 public:
  using Change = void (*)(Reference&);
  explicit ChangedOracle(Change change) : change_(change) {}
  std::optional<Reference> evaluate(const attn_problem& problem, const attn_tensors& host,
                                    const attn_plan& plan, const Calibration& calibration, RowSample sample,
                                    std::string* why) override {
    if (!change_) {
      *why = "a matter of taste";
      return std::nullopt;
    }
    Reference reference = attnfuzz::evaluate(problem, host, plan, calibration, sample);
    change_(reference);
    return reference;
  }
  std::string device() const override { return "a fake"; }

 private:
  const Change change_;
};

Case small() {
  Case c;
  c.problem.seq_q = c.problem.seq_k = 33;
  c.problem.dim_qk = c.problem.dim_v = 8;
  c.q = c.k = c.v = Fill{.kind = FillKind::kGaussian, .seed = 1};
  return c;
}

constexpr auto kSame = [](Reference&) {};
constexpr auto kNarrow = [](Reference& r) {
  for (double& bound : r[TensorId::kO].bound) bound *= 1e-6;
};
constexpr auto kWide = [](Reference& r) {
  for (Expected& output : r.outputs)
    for (double& bound : output.bound) bound *= 1e12;
};

struct Judged {
  Verdict verdict;
  OracleUse use;
};
// Judges two cases. The first is always in the sample that both oracles judge, so the second is not.
Judged judged(Flaw flaw, ChangedOracle::Change first, ChangedOracle::Change then, const char* property) {
  FakeTarget target(flaw);
  static ChangedOracle::Change now;
  now = first;
  target.oracles =
      std::make_shared<Oracles>(std::make_unique<ChangedOracle>(first ? +[](Reference& r) { now(r); } : first));
  judge(small(), *find_property("reference"), target, documented());
  now = then;
  Verdict verdict = judge(small(), *find_property(property), target, documented());
  return {std::move(verdict), target.oracles->use()};
}

TEST(Oracles, PassAKernelThatTheFastOnePasses) {
  const Judged j = judged(Flaw::kNone, kSame, kSame, "reference");
  EXPECT_EQ(j.verdict.outcome, Outcome::kPass) << j.verdict.message;
  EXPECT_EQ(j.use.fast, 2u);
  EXPECT_EQ(j.use.both, 1u) << "the first, and none by a failure";
  EXPECT_EQ(j.use.device, "a fake");
}

TEST(Oracles, JudgeAFailureAgainOnTheCpu) {
  const Judged j = judged(Flaw::kDropsLastKey, kSame, kSame, "reference");
  FakeTarget alone(Flaw::kDropsLastKey);
  const Verdict v = judge(small(), *find_property("reference"), alone, documented());
  EXPECT_EQ(j.verdict.kind, Kind::kWrong) << j.verdict.message;
  EXPECT_EQ(j.verdict.message, v.message);
  EXPECT_EQ(j.verdict.ratios, v.ratios);
  EXPECT_EQ(j.verdict.worst, v.worst);
  EXPECT_EQ(j.use.both, 2u);
}

TEST(Oracles, JudgeARelationAgainOnTheCpu) {
  const Judged j = judged(Flaw::kLayoutRounds, kSame, kSame, "layout");
  FakeTarget alone(Flaw::kLayoutRounds);
  const Verdict v = judge(small(), *find_property("layout"), alone, documented());
  EXPECT_EQ(v.kind, Kind::kRelation) << v.message;
  EXPECT_EQ(j.verdict.kind, Kind::kRelation);
  EXPECT_EQ(j.verdict.property, "layout");
  EXPECT_EQ(j.verdict.message, v.message);
}

// A relation uses two bounds, and the CPU's may be wider. Each output is within its bound, so nothing else
// finds this.
TEST(Oracles, ReportARelationThatFailsOnlyByTheFastOne) {
  static int trials;
  trials = 0;
  const Property fickle = {.name = "fickle",
                           .statement = "",
                           .adapt = [](Case&, const KernelInfo&, std::string*) { return true; },
                           .check =
                               [](Trial& trial) {
                                 trial.run(trial.base());
                                 if (++trials == 1) trial.fail(Kind::kRelation, "one of the two is larger");
                               }};
  FakeTarget target(Flaw::kNone);
  target.oracles = std::make_shared<Oracles>(std::make_unique<ChangedOracle>(kSame));
  const Verdict v = judge(small(), fickle, target, documented());
  EXPECT_EQ(trials, 2);
  EXPECT_EQ(v.outcome, Outcome::kFail);
  EXPECT_EQ(v.kind, Kind::kRelation);
  EXPECT_NE(v.message.find("one of the two is larger; judged again by the CPU's oracle alone it passed"),
            std::string::npos)
      << v.message;
}

TEST(Oracles, ThatDisagreeAreAFinding) {
  const Judged narrow = judged(Flaw::kNone, kSame, kNarrow, "reference");
  EXPECT_EQ(narrow.verdict.outcome, Outcome::kFail)
      << "the kernel is right, and the fast oracle's bound is too small";
  EXPECT_EQ(narrow.verdict.kind, Kind::kOracle);
  EXPECT_STREQ(kind_class(narrow.verdict.kind), "oracle");
  EXPECT_NE(narrow.verdict.message.find("No fault of the kernel"), std::string::npos) << narrow.verdict.message;
  EXPECT_EQ(narrow.verdict.message.find("variant"), std::string::npos);
  // A bound that is too wide is found because both oracles are asked even if nothing fails.
  FakeTarget target(Flaw::kNone);
  target.oracles = std::make_shared<Oracles>(std::make_unique<ChangedOracle>(kWide));
  EXPECT_EQ(judge(small(), *find_property("reference"), target, documented()).kind, Kind::kOracle);
}

TEST(Oracles, BothJudgeOneResultInAHundred) {
  FakeTarget target(Flaw::kNone);
  target.oracles = std::make_shared<Oracles>(std::make_unique<ChangedOracle>(kSame));
  for (int n = 0; n < 1000; ++n) judge(small(), *find_property("reference"), target, documented());
  EXPECT_EQ(target.oracles->use().fast, 1000u);
  EXPECT_GE(target.oracles->use().both, 4u);
  EXPECT_LE(target.oracles->use().both, 24u);
}

TEST(Oracles, UseAddsUp) {
  OracleUse all, one = {.device = "a fake", .fast = 3, .both = 2, .left = {{"taste", 1}}};
  const OracleUse other = {.device = "another", .fast = 4, .both = 5, .left = {{"taste", 2}, {"size", 1}}};
  all.merge(one), all.merge(other);
  EXPECT_EQ(all.device, "a fake");
  EXPECT_EQ(all.fast, 7u);
  EXPECT_EQ(all.both, 7u);
  EXPECT_EQ(all.left.at("taste"), 3u);
  EXPECT_EQ(all.left_in_all(), 4u);
}

// A result at the CPU's bound. The fast oracle's bound is smaller, by less than the two bounds may differ.
class AtItsBound final : public FakeTarget {
 public:
  RunReply run(Stage stage, const attn_problem& p, const attn_tensors& t, const attn_plan& plan,
               const attn_env& env, int stream) override {
    RunReply reply = FakeTarget::run(stage, p, t, plan, env, stream);
    const Reference r = attnfuzz::evaluate(p, t, plan, documented());
    const Expected& lse = r[TensorId::kLse];
    static_cast<float*>(t.lse.data)[0] = static_cast<float>(lse.value[0] + lse.bound[0] * (1 - kBelow / 2));
    return reply;
  }
  static constexpr double kBelow = 0x1p-18;
};

TEST(Oracles, LeaveNothingBehindOfAFailureThatIsNone) {
  AtItsBound target;
  target.oracles = std::make_shared<Oracles>(std::make_unique<ChangedOracle>([](Reference& r) {
    for (double& bound : r[TensorId::kLse].bound) bound *= 1 - AtItsBound::kBelow;
  }));
  Case c = small();
  c.problem.seq_k = 1;
  c.q = Fill{.kind = FillKind::kZero};  // an LSE of 0, and no rounding of what is added to it
  for (const uint64_t both : {1u, 2u}) {
    const Verdict v = judge(c, *find_property("reference"), target, documented());
    EXPECT_EQ(v.outcome, Outcome::kPass) << v.message;
    EXPECT_EQ(v.message, "");
    EXPECT_EQ(v.kind, Kind::kNone);
    EXPECT_FALSE(v.where);
    EXPECT_TRUE(v.shapes.empty());
    EXPECT_EQ(v.ratios.size(), 1u);
    EXPECT_EQ(target.oracles->use().both, both) << "the first is drawn, the second fails";
  }
}

TEST(Oracles, BothJudgeAllResultsOnRequest) {
  FakeTarget target(Flaw::kNone);
  target.oracles = std::make_shared<Oracles>(std::make_unique<ChangedOracle>(kSame), 1, 1);
  for (int n = 0; n < 20; ++n) judge(small(), *find_property("reference"), target, documented());
  EXPECT_EQ(target.oracles->use().both, 20u);
}

TEST(Oracles, CountCasesThatAreLeftToTheCpu) {
  const Judged j = judged(Flaw::kDropsLastKey, nullptr, nullptr, "reference");
  EXPECT_EQ(j.verdict.kind, Kind::kWrong);
  EXPECT_EQ(j.use.fast, 0u);
  EXPECT_EQ(j.use.left_in_all(), 2u);
  EXPECT_EQ(j.use.left.at("a matter of taste"), 2u);
}

}  // namespace
}  // namespace attnfuzz
