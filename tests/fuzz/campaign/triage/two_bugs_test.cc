// Tests the findings that triage makes from the crashes of a kernel with two bugs.
#include "tests/fuzz/campaign/triage/crash_folder.h"

namespace attnfuzz {
namespace {

// With a window it reads one key too few; without one it maps heads wrongly.
class TwoBugs : public FakeTarget {
 public:
  TwoBugs() : FakeTarget(Flaw::kWindowExclusive) {}
  RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    if (problem.window_left >= 0) return FakeTarget::run(stage, problem, tensors, plan, env, stream);
    return heads_.run(stage, problem, tensors, plan, env, stream);
  }

 private:
  FakeTarget heads_{Flaw::kHeadMap};
};

class TwoBugsTriage : public CrashFolder {
 protected:
  TwoBugsTriage() : CrashFolder([] { return std::make_unique<TwoBugs>(); }) {}

  Verdict judged(const Case& c) { return judge(c, *find_property("reference"), kernel_, executor()); }

  // True if the case failed; then it waits for the triage.
  bool file(const Case& c) {
    const Verdict verdict = judged(c);
    if (verdict.outcome != Outcome::kFail) return false;
    CrashFolder::file(c, verdict);
    return true;
  }

  TwoBugs kernel_;
};

TEST_F(TwoBugsTriage, EachIsOneFinding) {
  GeneratorConfig config;
  config.tiles_q = {FakeTarget::kTileQ};
  config.tiles_k = {FakeTarget::kTileK};
  config.work = 300'000;
  size_t windows = 0, heads = 0;
  for (uint64_t i = 0; i < 4000 && (windows < 6 || heads < 6); ++i) {
    const Case c = draw(config, 1, i);
    size_t& n = c.problem.window_left >= 0 ? windows : heads;
    if (n < 6) n += file(c);
  }
  ASSERT_EQ(windows, 6u);
  ASSERT_EQ(heads, 6u);
  const std::vector<Finding> found = findings();
  std::string all;
  for (const Finding& f : found) all += f.minimal + "\n";
  ASSERT_EQ(found.size(), 2u) << all;
  EXPECT_EQ(found[0].count, 6u) << found[0].minimal;
  EXPECT_EQ(found[1].count, 6u) << found[1].minimal;
  for (const Finding& f : found) {
    EXPECT_TRUE(f.reduced);
    EXPECT_NE(f.minimal.find("window [0, +inf]") != f.minimal.npos, f.minimal.find("H=4/2") != f.minimal.npos)
        << f.minimal;
  }
}

TEST_F(TwoBugsTriage, ASimplerCaseReplacesTheFindingItExplains) {
  // An earlier finding that was not reduced fully.
  Case clumsy;
  clumsy.problem.seq_q = clumsy.problem.seq_k = 5;
  clumsy.problem.window_left = 0;
  clumsy.problem.softcap = 1;
  const Verdict verdict = judged(clumsy);
  ASSERT_EQ(verdict.outcome, Outcome::kFail);
  Reproducer r = without_digests(clumsy, verdict, kernel_.info());
  r.needs = {{.part = "seq_k", .relation = Relation::kAtLeast, .value = 5},
             {.part = "window_left", .relation = Relation::kExactly},
             {.part = "softcap"}};
  write_file(options_.dir + "/findings/clumsy.attn.json", encode(r, "clumsy.attn.json"));
  Finding old;
  old.name = "clumsy";
  old.key = "another key";
  old.target = "fake.cpu.plain";
  old.property = "reference";
  old.kind = "non-finite";
  old.count = 3;
  old.t = 0.5;
  write_findings(options_.dir, {{old}, {}});

  Case simple;
  simple.problem.seq_q = simple.problem.seq_k = 2;
  simple.problem.window_left = 0;
  ASSERT_TRUE(file(simple));
  const std::vector<Finding> found = findings();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].name, "clumsy");
  EXPECT_EQ(found[0].count, 4u);
  EXPECT_EQ(found[0].t, 0);
  EXPECT_EQ(found[0].also, std::vector<std::string>{"fake.cpu.plain: non-finite"});
  EXPECT_FALSE(std::filesystem::exists(options_.dir + "/findings/clumsy.attn.json"));
  EXPECT_TRUE(std::filesystem::exists(options_.dir + "/findings/" + found[0].name + ".attn.json"));
  EXPECT_TRUE(read_crashes(options_.dir).empty());
}

}  // namespace
}  // namespace attnfuzz
