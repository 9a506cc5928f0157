// Tests that a finding that the ledger tolerates explains no other bug.
#include "tests/fuzz/campaign/triage/crash_folder.h"

namespace attnfuzz {
namespace {

// With a window it reads one key too few; with a window and a softcap it dies.
class Windows : public FakeTarget {
 public:
  Windows() : FakeTarget(Flaw::kWindowExclusive) {}
  RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    ++runs;
    if (problem.window_left < 0 || problem.softcap == 0)
      return FakeTarget::run(stage, problem, tensors, plan, env, stream);
    RunReply reply;
    reply.status = ATTN_FAULT;
    reply.crash = "SIGSEGV in run()";
    return reply;
  }
  inline static int runs = 0;
};

class Tolerated : public CrashFolder {
 protected:
  Tolerated() : CrashFolder([] { return std::make_unique<Windows>(); }) {}

  static Case windowed(int64_t length) {
    Case c;
    c.problem.seq_q = c.problem.seq_k = length;
    c.problem.window_left = 0;
    return c;
  }

  void file(const Case& c, double t = 0) {
    const Verdict verdict = judge(c, *find_property("reference"), kernel_, executor());
    ASSERT_EQ(verdict.outcome, Outcome::kFail);
    CrashFolder::file(c, verdict, t);
  }

  // A finding of an earlier night, which this kernel does not show any more.
  void list(const Case& c, const std::vector<Need>& needs) {
    Reproducer r = without_digests(c, {}, kernel_.info());
    r.property = "reference";
    r.kind = "wrong";
    r.needs = needs;
    write_file(options_.dir + "/findings/known.attn.json", encode(r, "known.attn.json"));
    Finding known;
    known.name = "known";
    known.key = "its key";
    known.target = "fake.cpu.plain";
    known.property = "reference";
    known.kind = "wrong";
    known.tolerated = "issue 1";
    write_findings(options_.dir, {{known}, {}});
  }

  // Two findings, of which the second is new.
  void expect_another() {
    const std::vector<Finding> found = findings();
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0].tolerated, "issue 1");
    EXPECT_EQ(found[0].count, 0u);
    EXPECT_EQ(found[1].tolerated, "");
    EXPECT_EQ(found[1].count, 1u);
  }

  Windows kernel_;
};

TEST_F(Tolerated, WithoutNeedsExplainsNoOtherBug) {
  list({}, {});
  file(windowed(5));
  expect_another();
}

// The other bug needs a window as well, and passes without it.
TEST_F(Tolerated, ExplainsNoBugThatNeedsTheSameParts) {
  list(windowed(2), {{.part = "window_left", .relation = Relation::kExactly}});
  Case other = windowed(5);
  other.problem.bias.emplace();
  file(other);
  expect_another();
}

// Its own failures are counted under it, and cost few runs; a crash that needs a window is another bug.
TEST_F(Tolerated, CountsWhatReducesToItsCaseAndKind) {
  file(windowed(5));
  std::vector<Finding> found = findings();
  ASSERT_EQ(found.size(), 1u);
  const int64_t evaluations = found[0].evaluations;
  KnownFailure known;
  known.key = found[0].key;
  known.reason = "issue 1";
  options_.ledger.known = {known};
  write_findings(options_.dir, {});
  file(windowed(5));
  ASSERT_EQ(findings().at(0).tolerated, "issue 1");

  Case other = windowed(40);
  other.problem.softcap = 0;
  other.problem.bias.emplace();
  other.problem.dim_qk = other.problem.dim_v = 24;
  file(other, 1);
  Windows::runs = 0;
  found = findings();
  ASSERT_EQ(found.size(), 1u) << found[1].minimal;
  EXPECT_EQ(found[0].count, 2u);
  EXPECT_LT(Windows::runs, evaluations / 2) << "the reduction goes no further than the known case";

  Case dies = windowed(5);
  dies.problem.softcap = 3;
  file(dies, 2);
  found = findings();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].count, 2u);
  EXPECT_EQ(found[1].kind, "crash");
  EXPECT_EQ(found[1].tolerated, "");
}

// Without parts, a finding that is not tolerated explains the failures of its kind, and no others.
TEST_F(Tolerated, OrNotAFindingWithoutNeedsExplainsOnlyItsKind) {
  list({}, {});
  FindingsFile all = read_findings(options_.dir);
  all.findings[0].tolerated = "";
  write_findings(options_.dir, all);
  Case dies = windowed(5);
  dies.problem.softcap = 3;
  file(dies);
  const std::vector<Finding> found = findings();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].kind, "crash");
}

}  // namespace
}  // namespace attnfuzz
