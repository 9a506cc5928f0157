// Tests that a tolerated failure is reported if it no longer fails, or if it cannot be run.
#include "fuzz/campaign/triage/recheck.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "fuzz/campaign/store/jobs/journal.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;
using Answer = Recheck::Answer;

// Dies once a case of 33 keys has been run, until it is renewed.
class Poisoned : public FakeTarget {
 public:
  RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    if (poisoned_) {
      RunReply reply;
      reply.status = ATTN_FAULT;
      reply.crash = "SIGSEGV";
      return reply;
    }
    poisoned_ = problem.seq_k == 33;
    return FakeTarget::run(stage, problem, tensors, plan, env, stream);
  }
  void renew() override { poisoned_ = false; }

 private:
  bool poisoned_ = false;
};

// Fails the first time of three.
class Flaky : public FakeTarget {
 public:
  RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    RunReply reply = FakeTarget::run(stage, problem, tensors, plan, env, stream);
    if (++runs_ % 3 == 0) {
      reply.status = ATTN_FAULT;
      reply.crash = "SIGSEGV";
    }
    return reply;
  }

 private:
  int runs_ = 0;
};

class ToleratedFailure : public ::testing::Test {
 protected:
  ToleratedFailure() {
    std::string name = (fs::temp_directory_path() / "recheck-XXXXXX").string();
    dir_ = mkdtemp(name.data());
    targets_.resize(1);
    CampaignTarget& target = targets_[0];
    target.record.name = "fake.cpu.plain";
    target.record.kernel = "./libfake.so";
    target.record.backend = "cpu";
    target.record.build_kind = "plain";
    target.info.library = "./libfake.so";
    target.info.name = "fake";
    target.calibration = documented();
    target.open = [this](std::string*) { return open_(); };
    r_.c.problem.seq_k = 17;
    r_.property = "reference";
    r_.kernel = "/elsewhere/libfake.so";
    r_.kind = to_string(Kind::kWrong);
    known_.key = "fake-wrong-1";
    known_.reason = "issue 1";
    known_.reproducer = dir_ + "/fake-wrong-1.attn.json";
  }
  ~ToleratedFailure() override { fs::remove_all(dir_); }

  Recheck look() {
    write_file(known_.reproducer, encode(r_, known_.reproducer));
    return recheck(known_, ledger_, targets_);
  }
  void expect_unknown(const std::string& why) {
    const Recheck r = recheck(known_, ledger_, targets_);
    EXPECT_EQ(r.answer, Answer::kUnknown);
    EXPECT_TRUE(r.text.starts_with("tolerated fake-wrong-1 was not looked at: ")) << r.text;
    EXPECT_NE(r.text.find(why), std::string::npos) << r.text;
  }

  std::string dir_;
  std::vector<CampaignTarget> targets_;
  std::function<std::unique_ptr<Target>()> open_ = [] { return std::make_unique<FakeTarget>(); };
  Reproducer r_;
  KnownFailure known_;
  Ledger ledger_;
};

TEST_F(ToleratedFailure, IsNoNewsWhileItFails) {
  open_ = [] { return std::make_unique<FakeTarget>(Flaw::kDropsLastKey); };
  const Recheck r = look();
  EXPECT_EQ(r.answer, Answer::kFails);
  EXPECT_EQ(r.text, "");
}

TEST_F(ToleratedFailure, MustLeaveTheLedgerOnceItPasses) {
  const Recheck r = look();
  EXPECT_EQ(r.answer, Answer::kHolds);
  EXPECT_TRUE(r.text.starts_with("tolerated fake-wrong-1 no longer fails: take it out of the ledger"))
      << r.text;
}

TEST_F(ToleratedFailure, SaysSoIfItFailsInAnotherWay) {
  open_ = [] { return std::make_unique<FakeTarget>(Flaw::kFaults); };
  const Recheck r = look();
  EXPECT_EQ(r.answer, Answer::kFails);
  EXPECT_NE(r.text.find("its reproducer says 'wrong'"), std::string::npos) << r.text;
}

TEST_F(ToleratedFailure, ThatFailsInSomeRunsIsNotTakenForGone) {
  open_ = [] { return std::make_unique<Flaky>(); };
  r_.kind = to_string(Kind::kCrash);
  const Recheck r = look();
  EXPECT_EQ(r.answer, Answer::kFails) << r.text;
}

TEST_F(ToleratedFailure, ThatNeedsEarlierCasesIsRunAfterThem) {
  open_ = [] { return std::make_unique<Poisoned>(); };
  r_.kind = to_string(Kind::kCrash);
  EXPECT_EQ(look().answer, Answer::kHolds);
  Journaled before = {"fake.cpu.plain", "reference", r_.c, 1};
  before.c.problem.seq_k = 33;
  write_file(dir_ + "/fake-wrong-1.trace.jsonl", text_of({before}));
  EXPECT_EQ(look().answer, Answer::kFails);
}

TEST_F(ToleratedFailure, ThatCannotBeRunIsReported) {
  expect_unknown("cannot read " + known_.reproducer);
  write_file(known_.reproducer, "{");
  expect_unknown(known_.reproducer);
  r_.kernel = "other";
  EXPECT_EQ(look().answer, Answer::kUnknown);
  expect_unknown("its kernel, other (cpu, plain), is not in this session");
  r_.kernel = "libfake.so";
  r_.c.build_kind = "asan";
  EXPECT_EQ(look().answer, Answer::kUnknown);
  expect_unknown("(cpu, asan), is not in this session");
  r_.c.build_kind = "plain";
  r_.digests[0] = 12345;
  EXPECT_EQ(look().answer, Answer::kUnknown);
  expect_unknown("another version of the fills");
  r_.digests = {};
  r_.property = "no_such";
  EXPECT_EQ(look().answer, Answer::kUnknown);
  expect_unknown("no_such");
}

TEST_F(ToleratedFailure, ThatIsQuarantinedIsNotLaunched) {
  open_ = [] { return std::make_unique<FakeTarget>(Flaw::kDropsLastKey); };
  KnownFailure never;
  never.quarantined = true;
  never.features = {"kv tail"};
  ledger_.known = {never};
  EXPECT_EQ(look().answer, Answer::kUnknown);
  expect_unknown("quarantines");
}

// The supervisor runs tolerated failures in child processes, one after another. Here one child dies.
TEST_F(ToleratedFailure, IsRunInAChild) {
  write_file(known_.reproducer, encode(r_, known_.reproducer));
  CampaignOptions options;
  KnownFailure never;
  never.quarantined = true;
  never.kernel = "another";
  KnownFailure without = known_;
  without.reproducer = "";
  options.ledger.known = {known_, never, without, known_};
  options.ledger.known[3].key = "second";
  const SharedStatePtr shared = make_shared_state();
  // Only the second child dies.
  const std::string marker = dir_ + "/looked";
  open_ = [&]() -> std::unique_ptr<Target> {
    if (fs::exists(marker)) _exit(7);
    std::ofstream(marker) << "1";
    return std::make_unique<FakeTarget>();
  };
  Rechecks rechecks(options, targets_, shared->slots[0], "");
  std::vector<Recheck> all;
  while (!rechecks.done()) {
    while (auto r = rechecks.step()) all.push_back(*r);
    usleep(1000);
  }
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].answer, Answer::kHolds);
  EXPECT_NE(all[0].text.find("take it out of the ledger"), std::string::npos) << all[0].text;
  EXPECT_EQ(all[1].name, "second");
  EXPECT_EQ(all[1].answer, Answer::kUnknown);
  EXPECT_NE(all[1].text.find("exit status 7"), std::string::npos) << all[1].text;
}

TEST_F(ToleratedFailure, ThatTheSessionDidNotReachIsReported) {
  CampaignOptions options;
  options.ledger.known = {known_, known_};
  const SharedStatePtr shared = make_shared_state();
  open_ = []() -> std::unique_ptr<Target> {
    for (;;) pause();
  };
  write_file(known_.reproducer, encode(r_, known_.reproducer));
  Rechecks rechecks(options, targets_, shared->slots[0], "");
  EXPECT_FALSE(rechecks.step().has_value());
  EXPECT_FALSE(rechecks.step().has_value());
  const std::vector<Recheck> left = rechecks.give_up();
  ASSERT_EQ(left.size(), 2u);
  EXPECT_NE(left[0].text.find("the session ended before"), std::string::npos) << left[0].text;
  EXPECT_TRUE(rechecks.done());
}

}  // namespace
}  // namespace attnfuzz
