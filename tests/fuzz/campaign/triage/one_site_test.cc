// Tests that crashes or hangs at one place of the kernel are one finding, of which only the first is
// run; and that failures at two places are two findings, even if a reduction could move between them.
#include "tests/fuzz/campaign/triage/crash_folder.h"

namespace attnfuzz {
namespace {

// Dies, or hangs, at one place with a softcap or a bias, and at another place with 17 keys or more.
class Dies : public FakeTarget {
 public:
  explicit Dies(int* runs, bool hangs = false) : runs_(runs), hangs_(hangs) {}
  RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    ++*runs_;
    const bool first = problem.softcap != 0 || tensors.bias.data != nullptr;
    if (!first && problem.seq_k < 17) return FakeTarget::run(stage, problem, tensors, plan, env, stream);
    RunReply reply;
    reply.status = ATTN_FAULT;
    reply.timed_out = hangs_;
    if (!hangs_) reply.crash = "SIGSEGV in run()";
    reply.site = first ? "SIGSEGV at fake.so+0x10" : "SIGSEGV at fake.so+0x20";
    if (hangs_) reply.site.replace(0, 10, "stuck in");
    return reply;
  }

 private:
  int* runs_;
  bool hangs_;
};

class OneSite : public CrashFolder {
 protected:
  OneSite() : CrashFolder([this] { return std::make_unique<Dies>(&runs_, hangs_); }) {}

  static Case softcapped(int64_t keys) {
    Case c;
    c.problem.seq_k = keys;
    c.problem.softcap = 3;
    return c;
  }
  static Case biased(int64_t keys) {
    Case c;
    c.problem.seq_k = keys;
    c.problem.bias.emplace();
    return c;
  }

  void file(const Case& c, double t) {
    int runs = 0;
    Dies kernel(&runs, hangs_);
    const Verdict verdict = judge(c, *find_property("reference"), kernel, executor());
    ASSERT_EQ(verdict.kind, hangs_ ? Kind::kHang : Kind::kCrash) << verdict.message;
    ASSERT_NE(verdict.site, "");
    CrashFolder::file(c, verdict, t);
  }

  // The only finding of three failures. Only the first failure may be run.
  Finding only_finding() {
    file(softcapped(5), 1);
    EXPECT_EQ(findings().size(), 1u);
    const int before = runs_;
    file(biased(9), 2);
    file(softcapped(64), 3);
    const std::vector<Finding> found = findings();
    EXPECT_EQ(runs_, before) << "nothing needs to be run to know; each run of a hang costs all of a watch";
    if (found.size() != 1) {
      ADD_FAILURE() << found.size() << " findings";
      return {};
    }
    EXPECT_EQ(found[0].count, 3u);
    return found[0];
  }

  int runs_ = 0;
  bool hangs_ = false;
};

TEST_F(OneSite, IsOneFindingHoweverItIsReached) {
  EXPECT_EQ(only_finding().sites, std::vector<std::string>{"SIGSEGV at fake.so+0x10"});
  EXPECT_TRUE(read_crashes(options_.dir).empty());
}

TEST_F(OneSite, AHangIsOneFindingToo) {
  hangs_ = true;
  EXPECT_EQ(only_finding().kind, "hang");
}

TEST_F(OneSite, AReductionStaysWhereItBegan) {
  file(softcapped(40), 1);
  const std::vector<Finding> found = findings();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].sites, std::vector<std::string>{"SIGSEGV at fake.so+0x10"});
  EXPECT_NE(found[0].minimal.find("softcap"), std::string::npos) << found[0].minimal;
}

TEST_F(OneSite, AnotherSiteIsAnotherFinding) {
  Case plain;
  plain.problem.seq_k = 40;
  file(softcapped(5), 1);
  file(plain, 2);
  const std::vector<Finding> found = findings();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NE(found[0].sites, found[1].sites);
}

TEST(FoundAt, ACrashWithoutASiteIsAtNone) {
  Finding finding;
  finding.target = "a";
  finding.kind = "crash";
  finding.sites = {"", "SIGSEGV at x+0x1"};
  std::vector<Finding> list = {finding};
  Crash crash;
  crash.target = "a";
  crash.kind = "crash";
  EXPECT_EQ(found_at(list, crash), nullptr);
  crash.site = "SIGSEGV at x+0x1";
  EXPECT_EQ(found_at(list, crash), &list[0]);
  crash.kind = "hang";
  EXPECT_EQ(found_at(list, crash), nullptr);
}

}  // namespace
}  // namespace attnfuzz
