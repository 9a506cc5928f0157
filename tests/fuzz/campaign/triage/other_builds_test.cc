// Tests that a reduced failure is run again in the builds of sanitizers, and judged again by both oracles.
#include "properties/judge/oracles.h"
#include "properties/reduce/reproducer.h"
#include "tests/fuzz/campaign/triage/crash_folder.h"

namespace attnfuzz {
namespace {

// Gives wrong numbers. In the build tsan it also has a race.
class Racy : public FakeTarget {
 public:
  explicit Racy(const std::string& build_kind) : FakeTarget(Flaw::kConstantAdded), info_(FakeTarget::info()) {
    info_.build_kind = build_kind;
  }
  const KernelInfo& info() const override { return info_; }
  RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    RunReply reply = FakeTarget::run(stage, problem, tensors, plan, env, stream);
    if (info_.build_kind == "tsan" && problem.seq_k > 8)
      reply.fault = Fault{ATTN_REPORT_RACE, {}, {}, "two threads at one place", "fake.cu", 7};
    return reply;
  }

 private:
  KernelInfo info_;
};

class OtherBuilds : public CrashFolder {
 protected:
  OtherBuilds() : CrashFolder([] { return std::make_unique<Racy>("plain"); }) {}

  static Case wrong() {
    Case c;
    c.problem.seq_k = 20;
    c.v.kind = FillKind::kGaussian;
    return c;
  }
  void file_wrong() {
    Racy kernel("plain");
    const Verdict verdict = judge(wrong(), *find_property("reference"), kernel, executor());
    ASSERT_EQ(verdict.kind, Kind::kWrong) << verdict.message;
    file(wrong(), verdict);
  }
  Reproducer filed(const Finding& finding) {
    const auto read = read_reproducer(options_.dir + "/findings/" + finding.name + ".attn.json");
    const auto* r = std::get_if<Reproducer>(&read);
    EXPECT_NE(r, nullptr);
    return r ? *r : Reproducer{};
  }
};

TEST_F(OtherBuilds, SanitizersThatReportNothingDoNotChangeTheKind) {
  std::vector<std::string> opened;
  targets_[0].open_build = [&](const std::string& build_kind) -> std::unique_ptr<Target> {
    opened.push_back(build_kind);
    if (build_kind != "asan" && build_kind != "tsan") return nullptr;  // no other build exists
    return std::make_unique<Racy>(build_kind);
  };
  // The smallest case in plain has one key, which is too few for the race.
  constexpr int64_t kTooFew = 1;
  file_wrong();
  std::vector<Finding> found = findings();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, "wrong");
  EXPECT_EQ(filed(found[0]).c.problem.seq_k, kTooFew);
  EXPECT_EQ(found[0].votes, "of 6 random orders of threads 6 fail; asan: wrong; tsan: wrong");
  EXPECT_EQ(std::ranges::count(opened, "msan"), 1);
}

TEST_F(OtherBuilds, TheBuildThatReportsTakesTheFindingOver) {
  targets_[0].open_build = [](const std::string& build_kind) -> std::unique_ptr<Target> {
    // Has the race also in the smallest case.
    class Everywhere : public Racy {
     public:
      using Racy::Racy;
      RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
                   const attn_env& env, int stream) override {
        RunReply reply = Racy::run(stage, problem, tensors, plan, env, stream);
        reply.fault = Fault{ATTN_REPORT_RACE, {}, {}, "two threads at one place", "fake.cu", 7};
        return reply;
      }
    };
    return build_kind == "tsan" ? std::make_unique<Everywhere>(build_kind) : nullptr;
  };
  file_wrong();
  const std::vector<Finding> found = findings();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, "race");
  EXPECT_EQ(found[0].also, std::vector<std::string>{"fake.cpu.plain: wrong"});
  const Reproducer r = filed(found[0]);
  EXPECT_EQ(r.c.build_kind, "tsan");
  EXPECT_EQ(r.kind, "race");
}

// An oracle that is wrong about every element.
class Mistaken final : public FastOracle {
 public:
  std::optional<Reference> evaluate(const attn_problem& problem, const attn_tensors& host,
                                    const attn_plan& plan, const Calibration& calibration, RowSample sample,
                                    std::string*) override {
    Reference reference = attnfuzz::evaluate(problem, host, plan, calibration, sample);
    for (double& value : reference[TensorId::kO].value) value += 1;
    return reference;
  }
  std::string device() const override { return "a fake"; }
};

TEST_F(OtherBuilds, ADisagreementOfOraclesIsConfirmedByBoth) {
  targets_[0].open = [](std::string*) { return std::make_unique<FakeTarget>(); };
  targets_[0].put_oracle = [](Target& on, bool all) {
    on.oracles = std::make_shared<Oracles>(std::make_unique<Mistaken>(), 1, all ? 1 : 100);
  };
  Verdict verdict;
  verdict.kind = Kind::kOracle;
  file(wrong(), verdict);
  const std::vector<Finding> found = findings();
  ASSERT_EQ(found.size(), 1u) << "or it never came again";
  EXPECT_EQ(found[0].kind, "oracle");
  EXPECT_EQ(found[0].repeats, Repeats::kAlways);
}

}  // namespace
}  // namespace attnfuzz
