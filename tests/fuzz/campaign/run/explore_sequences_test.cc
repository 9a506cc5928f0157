// Tests a campaign's job that runs sequences of calls: what it files, and how it goes on after a kill.
#include "fuzz/campaign/run/explore_sequences.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "fuzz/campaign/store/jobs/folder.h"
#include "fuzz/campaign/store/jobs/journal.h"
#include "properties/judge/property.h"
#include "properties/sequences/session/codec.h"
#include "tests/fuzz/batch/oracle_target.h"
#include "tests/fuzz/campaign/append_target.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;
using Bug = AppendTarget::Bug;
using ::testing::HasSubstr;

constexpr const char* kName = "appends.cpu.plain";

class ExploreSequences : public ::testing::Test {
 protected:
  ExploreSequences() {
    std::string name = (fs::temp_directory_path() / "sequences-XXXXXX").string();
    options_.dir = mkdtemp(name.data());
    target_.record.name = kName;
    target_.record.kernel = target_.folder = "appends";
    target_.record.backend = "cpu";
    target_.record.build_kind = "plain";
    target_.record.sequences = true;
    target_.properties = {find_property("reference")};
    target_.calibration = executor();
    target_.open = [this](std::string*) {
      auto target = std::make_unique<AppendTarget>(bug_);
      target->ends = ends_;
      return target;
    };
    begin_session(options_, {target_});
    fs::create_directories(shard());
  }
  ~ExploreSequences() override { fs::remove_all(options_.dir); }

  std::string shard() const { return shard_dir(options_.dir, 0); }

  // Calls `use` with a SequenceExplorer, and returns what it counted.
  SequenceStats with_explorer(const std::function<void(SequenceExplorer&)>& use) {
    const Slice slice = this->slice(~uint64_t{0});
    SequenceExplorer explorer(slice, stats_, [](const auto& write) { write(); });
    use(explorer);
    return stats_.targets[kName].sequences;
  }
  Slice slice(uint64_t cases) {
    clock_.run_for(600);
    return {.options = options_,
            .target = target_,
            .target_number = 0,
            .shared = *shared_,
            .group = shared_->groups[0],
            .clock = clock_,
            .end = clock_.end,
            .shard = 0,
            .most_cases = cases};
  }

  // The job dies in its `runs`-th run of the kernel, and the supervisor notes it.
  void die_in_run(int runs) {
    bug_ = Bug::kEndsJob;
    ends_ = [runs]() mutable { return --runs == 0; };
    const pid_t job = fork();
    if (job == 0) {
      with_explorer([](SequenceExplorer& explorer) {
        explorer.resume();
        for (int n = 0; n < 500; ++n) explorer.next();
      });
      std::_Exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(job, &status, 0), job);
    ASSERT_EQ(WEXITSTATUS(status), 7);
    note_shard_exit(shard());
  }

  Bug bug_ = Bug::kNone;
  std::function<bool()> ends_ = [] { return false; };
  CampaignOptions options_;
  CampaignTarget target_;
  ShardStats stats_;
  SharedStatePtr shared_ = make_shared_state();
  SessionClock clock_{0};
};

TEST_F(ExploreSequences, ARightKernelPasses) {
  const SequenceStats counts = with_explorer([](SequenceExplorer& explorer) {
    for (int n = 0; n < 49; ++n) explorer.next();
    EXPECT_FALSE(explorer.at_border());
    explorer.next();
    EXPECT_TRUE(explorer.at_border()) << "a process has 50";
  });
  EXPECT_EQ(counts.sequences, 50u);
  EXPECT_EQ(counts.failed, 0u);
  EXPECT_TRUE(counts.judged.contains("append"));
  EXPECT_TRUE(counts.left_out.contains("forward: no kernel given has it on pages"))
      << counts.left_out.begin()->first;
  EXPECT_EQ(stats_.next_sequence[kName], 50u);
  for (const Crash& crash : read_crashes(options_.dir)) ADD_FAILURE() << crash.message;
  EXPECT_TRUE(sequences_in_flight(shard()).empty());
  EXPECT_EQ(shared_->slots[0].sequences, 50u);
}

TEST_F(ExploreSequences, HaveTheirShareOfTheTime) {
  with_explorer([this](SequenceExplorer& explorer) {
    EXPECT_TRUE(explorer.due(1));
    stats_.targets[kName].sequences.wall = 1;
    EXPECT_FALSE(explorer.due(3.9));
    EXPECT_TRUE(explorer.due(4.1));
  });
}

TEST_F(ExploreSequences, AFailureIsFiledWithThoseBeforeItAndOthersAreCounted) {
  bug_ = Bug::kAfterMany;
  const SequenceStats counts = with_explorer([](SequenceExplorer& explorer) {
    for (int n = 0; n < 400; ++n) explorer.next();
  });
  const std::vector<Crash> crashes = read_crashes(options_.dir);
  ASSERT_EQ(crashes.size(), 12u) << "no more wait";
  uint64_t not_filed = 0;
  for (const auto& [kind, n] : counts.not_filed) not_filed += n;
  EXPECT_EQ(counts.failed, crashes.size() + not_filed);
  EXPECT_GT(not_filed, 0u);
  for (const Crash& crash : crashes) {
    EXPECT_EQ(crash.property, kOfSequences);
    const auto read = sequences::decode_session(crash.calls);
    const auto* file = std::get_if<sequences::SessionFile>(&read);
    ASSERT_NE(file, nullptr);
    EXPECT_FALSE(file->chain.before.empty());
    EXPECT_EQ(file->found.kernels, std::vector<std::string>{"appends"});
    EXPECT_EQ(file->found.backend, "cpu");
    EXPECT_EQ(file->found.build, "plain");
    AppendTarget again(bug_);
    const sequences::SessionTarget one = {&again, executor()};
    EXPECT_EQ(check_chain(file->chain, sequences::SessionTargets(std::span(&one, 1))).verdict.outcome,
              Outcome::kFail);
  }
}

// All that had run in the process that ended runs again, then the one in flight, and no number is left out.
TEST_F(ExploreSequences, AKilledJobGoesOnWithTheOneInFlight) {
  die_in_run(40);
  const std::vector<JournaledSequence> left = sequences_in_flight(shard());
  ASSERT_GT(left.size(), 1u);
  EXPECT_EQ(shard_exits(shard(), left.back()), 1);
  int runs = 0;
  ends_ = [&] { return ++runs, false; };
  const SequenceStats counts = with_explorer([](SequenceExplorer& explorer) { explorer.resume(); });
  EXPECT_EQ(counts.sequences, left.size());
  EXPECT_GE(runs, 40);
  EXPECT_EQ(stats_.next_sequence[kName], left.back().number + 1);
  EXPECT_TRUE(sequences_in_flight(shard()).empty());
  EXPECT_TRUE(read_crashes(options_.dir).empty());
}

// Sequences that the shard's statistics have already run again for the state that they leave, uncounted.
TEST_F(ExploreSequences, ThoseCountedBeforeAKillAreNotCountedAgain) {
  die_in_run(40);
  const std::vector<JournaledSequence> left = sequences_in_flight(shard());
  ASSERT_GT(left.size(), 2u);
  stats_.next_sequence[kName] = left.back().number - 1;  // the last one that finished is not in them
  int runs = 0;
  ends_ = [&] { return ++runs, false; };
  const SequenceStats counts = with_explorer([](SequenceExplorer& explorer) { explorer.resume(); });
  EXPECT_GE(runs, 40) << "all ran again";
  EXPECT_EQ(counts.sequences, 2u);
  EXPECT_EQ(stats_.next_sequence[kName], left.back().number + 1);
}

TEST_F(ExploreSequences, OneThatEndsThreeJobsIsFiled) {
  for (int job = 0; job < 3; ++job) die_in_run(40);
  const std::vector<JournaledSequence> left = sequences_in_flight(shard());
  EXPECT_EQ(left.back().attempts, 3);
  const SequenceStats counts = with_explorer([](SequenceExplorer& explorer) {
    explorer.resume();
    EXPECT_TRUE(explorer.at_border());
  });
  EXPECT_EQ(counts.failed, 1u);
  const std::vector<Crash> crashes = read_crashes(options_.dir);
  ASSERT_EQ(crashes.size(), 1u);
  EXPECT_EQ(crashes[0].kind, "crash");
  EXPECT_THAT(crashes[0].message, HasSubstr("died or was stuck, 3 times in a row"));
  const auto read = sequences::decode_session(crashes[0].calls);
  EXPECT_EQ(std::get<sequences::SessionFile>(read).chain.before.size(), left.size() - 1);
  EXPECT_TRUE(sequences_in_flight(shard()).empty());
}

// A kernel whose first output is infinite.
class InfiniteTarget : public OracleTarget {
 public:
  RunReply run(Stage stage, const attn_problem& p, const attn_tensors& t, const attn_plan& plan,
               const attn_env& env, int stream) override {
    const RunReply reply = OracleTarget::run(stage, p, t, plan, env, stream);
    if (t.o.data != nullptr) *static_cast<uint16_t*>(t.o.data) = p.dtype == ATTN_F16 ? 0x7c00 : 0x7f80;
    return reply;
  }
};

// An infinite error cannot be written as a number of the statistics, which would then be lost.
TEST_F(ExploreSequences, AnInfiniteErrorLeavesStatisticsThatCanBeRead) {
  target_.open = [](std::string*) { return std::make_unique<InfiniteTarget>(); };
  const SequenceStats counts = with_explorer([](SequenceExplorer& explorer) {
    for (int n = 0; n < 40; ++n) explorer.next();
  });
  EXPECT_GT(counts.failed, 0u);
  write_stats(options_.dir, 0, stats_);
  EXPECT_EQ(read_stats(options_.dir, 0).targets.at(kName).sequences.failed, counts.failed);
}

TEST_F(ExploreSequences, TwoHangsEndThemForTheSlice) {
  with_explorer([this](SequenceExplorer& explorer) {
    bug_ = Bug::kHangs;
    for (int n = 0; n < 20 && explorer.due(1e9); ++n) explorer.next();
    EXPECT_FALSE(explorer.due(1e9));
  });
  EXPECT_EQ(read_crashes(options_.dir).size(), 2u);
  EXPECT_TRUE(
      stats_.targets[kName].sequences.left_out.contains("sequences of the rest of a slice, in which 2 hung"));
}

// A slice runs both, and a target whose record has none runs cases only.
TEST_F(ExploreSequences, ASliceHasCasesAndSequences) {
  explore(slice(40));
  const ShardStats stats = read_stats(options_.dir, 0);
  EXPECT_EQ(stats.last.cases, 40u);
  EXPECT_GT(stats.targets.at(kName).sequences.sequences, 0u);
  EXPECT_GT(stats.targets.at(kName).sequences.wall, 0);
  EXPECT_EQ(stats.next_sequence.at(kName), stats.targets.at(kName).sequences.sequences);
}

TEST_F(ExploreSequences, WithoutThemTheOneInFlightIsCounted) {
  SequenceJournal(shard()).begin({kName, 3, 1, "{}"}, true);
  target_.record.sequences = false;
  explore(slice(5));
  const SequenceStats counts = read_stats(options_.dir, 0).targets.at(kName).sequences;
  EXPECT_EQ(counts.sequences, 0u);
  EXPECT_EQ(counts.left_out.at("after a kill: the next session was without --sequences"), 1u);
  EXPECT_EQ(target_in_flight(shard()), std::nullopt) << "the shard would never work on another target";
}

TEST_F(ExploreSequences, InQuarantineTheOneInFlightIsCountedUnderIt) {
  SequenceJournal(shard()).begin({kName, 3, 1, "{}"}, true);
  target_.record.sequences = false;
  target_.record.no_sequences = "the ledger quarantines cases of it: issue 3";
  explore(slice(5));
  const SequenceStats counts = read_stats(options_.dir, 0).targets.at(kName).sequences;
  EXPECT_EQ(counts.left_out.size(), 1u);
  EXPECT_TRUE(counts.left_out.contains("after a kill: the ledger quarantines cases of it: issue 3"));
}

// The folder is continued with another kernel only.
TEST_F(ExploreSequences, OneOfAnotherTargetIsCountedThere) {
  for (const bool sequences : {true, false}) {
    SequenceJournal(shard()).begin({"gone.cpu.plain", 3, 1, "{}"}, true);
    target_.record.sequences = sequences;
    explore(slice(5));
    const ShardStats stats = read_stats(options_.dir, 0);
    const SequenceStats& gone = stats.targets.at("gone.cpu.plain").sequences;
    EXPECT_EQ(gone.left_out.at("after a kill: the next slice was of another target"), sequences ? 1u : 2u);
    EXPECT_EQ(
        stats.targets.at(kName).sequences.left_out.count("after a kill: the next slice was of another target"),
        0u);
    EXPECT_EQ(target_in_flight(shard()), std::nullopt);
  }
}

TEST_F(ExploreSequences, AreRefusedByNameWithoutPages) {
  AppendTarget appends(Bug::kNone);
  EXPECT_EQ(no_sequences_on(appends), "");
  FakeTarget dense;
  EXPECT_THAT(no_sequences_on(dense),
              HasSubstr("neither appends to pages, copies pages nor attends over them"));
}

}  // namespace
}  // namespace attnfuzz
