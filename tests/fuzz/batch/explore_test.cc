// Tests a campaign's job that judges batches: it files the same failures, and its journal names all cases in
// flight.
#include "fuzz/campaign/run/explore.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "fuzz/campaign/store/jobs/folder.h"
#include "fuzz/campaign/store/jobs/journal.h"
#include "properties/case/codec/codec.h"
#include "properties/judge/property.h"
#include "tests/fuzz/batch/fake_batch_target.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

class ExploreInBatches : public ::testing::Test {
 protected:
  ExploreInBatches() {
    std::string name = (fs::temp_directory_path() / "explore-XXXXXX").string();
    options_.dir = mkdtemp(name.data());
    options_.work = 20'000;  // the executor judges a row in milliseconds
  }
  ~ExploreInBatches() override { fs::remove_all(options_.dir); }

  ShardStats explored(Flaw flaw, uint64_t cases) {
    CampaignTarget target;
    target.record.name = "fake.cpu.plain";
    target.record.backend = "cpu";
    target.record.build_kind = "plain";
    target.folder = "fake";
    target.properties = {find_property("reference")};
    target.calibration = documented();
    target.batch = 16;
    target.open = [flaw](std::string*) { return std::make_unique<BothWays>(flaw); };
    begin_session(options_, {target});
    fs::create_directories(shard_dir(options_.dir, 0));
    const SharedStatePtr shared = make_shared_state();
    SessionClock clock(0);
    clock.run_for(600);
    const Slice slice = {.options = options_,
                         .target = target,
                         .target_number = 0,
                         .shared = *shared,
                         .group = shared->groups[0],
                         .clock = clock,
                         .end = clock.end,
                         .shard = 0,
                         .most_cases = cases};
    explore(slice);
    return read_stats(options_.dir, 0);
  }

  CampaignOptions options_;
};

TEST_F(ExploreInBatches, ARightKernelIsClearedOnTheDevice) {
  const ShardStats stats = explored(Flaw::kNone, 64);
  EXPECT_EQ(stats.last.cases, 64u);
  EXPECT_EQ(stats.last.failed, 0u);
  EXPECT_GT(stats.targets.at("fake.cpu.plain").batch.cleared, 32u);
  EXPECT_TRUE(read_crashes(options_.dir).empty());
  EXPECT_GT(read_corpus(options_.dir).size(), 0u);
  EXPECT_TRUE(batch_in_flight(shard_dir(options_.dir, 0)).empty());
}

TEST_F(ExploreInBatches, AFailureIsFiledWithTheCasesBeforeIt) {
  const ShardStats stats = explored(Flaw::kDropsLastKey, 64);
  EXPECT_GT(stats.last.failed, 0u);
  const std::vector<Crash> crashes = read_crashes(options_.dir);
  ASSERT_FALSE(crashes.empty());
  EXPECT_EQ(crashes[0].kind, "wrong");
}

TEST_F(ExploreInBatches, TheSameCasesAreJudgedByOneThreadAndByThree) {
  options_.gpu_threads = 1;
  const ShardStats one = explored(Flaw::kDropsLastKey, 96);
  fs::remove_all(options_.dir);
  options_.gpu_threads = 3;
  const ShardStats three = explored(Flaw::kDropsLastKey, 96);
  EXPECT_EQ(three.last.cases, 96u);
  EXPECT_EQ(one.last.cases, 96u);
  EXPECT_GT(three.last.failed, 0u);
  EXPECT_GT(three.targets.at("fake.cpu.plain").batch.cleared, 48u);
  EXPECT_TRUE(batch_in_flight(shard_dir(options_.dir, 0)).empty());
}

TEST_F(ExploreInBatches, TheJournalNamesTheCasesOfAllBatchesInFlight) {
  const std::string shard = shard_dir(options_.dir, 0);
  fs::create_directories(shard);
  constexpr size_t kBatch = 50;
  Journal journal(shard, 3 * kBatch);
  const auto begin = [&](uint64_t first, size_t still) {
    std::vector<Journaled> batch;
    for (uint64_t n = 0; n < kBatch; ++n) batch.push_back({"t", "reference", Case{}, first + n, 1});
    journal.begin(batch, still);
  };
  uint64_t first = 0;
  for (size_t still = 0; first < 20 * kBatch; still = std::min(still + kBatch, 2 * kBatch), first += kBatch) {
    begin(first, still);
    const std::vector<Journaled> in_flight = batch_in_flight(shard);
    ASSERT_EQ(in_flight.size(), still + kBatch);
    EXPECT_EQ(in_flight.front().index, first - still);
    EXPECT_EQ(in_flight.back().index, first + kBatch - 1);
    const std::vector<Journaled> trace = trace_of(shard, &in_flight[still]);
    EXPECT_EQ(trace.back().index, first) << "the crash of a case comes with the cases before it";
    EXPECT_EQ(trace.size(), std::min<size_t>(first + 1, Journal::kTrace));
  }
}

TEST_F(ExploreInBatches, AfterAKillEachCaseOfTheBatchIsRunAlone) {
  const std::string shard = shard_dir(options_.dir, 0);
  fs::create_directories(shard);
  std::vector<Journaled> batch;
  for (uint64_t n = 0; n < 5; ++n) batch.push_back({"fake.cpu.plain", "reference", Case{}, n, 1});
  Journal(shard).begin(batch);
  note_shard_exit(shard);
  EXPECT_EQ(batch_in_flight(shard).size(), 5u);
  EXPECT_EQ(shard_exits(shard, batch[4]), 0) << "nobody knows which of them it was";
  const ShardStats stats = explored(Flaw::kNone, 5);
  EXPECT_EQ(stats.last.cases, 5u);
  EXPECT_EQ(stats.targets.at("fake.cpu.plain").batch.cleared, 0u) << "each was judged by itself";
}

// A corpus entry that a GPU kept may be too long for a CPU. The CPU neither runs nor mutates it, and counts
// both.
TEST_F(ExploreInBatches, ACaseThatIsTooLongIsNoParentAndIsCounted) {
  CorpusEntry entry;
  Case c;
  c.problem.seq_q = c.problem.seq_k = 1 << 15;
  entry.id = digest(c);
  entry.kernel = "fake";
  entry.target = "fake.cuda.plain";
  entry.property = "reference";
  entry.origin = "drawn";
  const std::string shard = shard_dir(options_.dir, 1), file = corpus_file(options_.dir, entry.kernel, entry.id);
  fs::create_directories(shard);
  fs::create_directories(fs::path(file).parent_path());
  std::ofstream(file) << encode(c);
  std::ofstream(shard + "/corpus.jsonl") << line_of(entry) << '\n';
  options_.device_work = 0;
  const TargetStats stats = explored(Flaw::kNone, 64).targets.at("fake.cpu.plain");
  EXPECT_EQ(stats.origins.at("left to a GPU"), 1u);
  EXPECT_GT(stats.long_parents, 0u);
}

}  // namespace
}  // namespace attnfuzz
