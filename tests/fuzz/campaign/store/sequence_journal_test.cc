// Tests the journal of sequences of calls: what was in flight when a process ended, and which exits count.
#include "fuzz/campaign/store/jobs/sequence_journal.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "fuzz/campaign/store/jobs/journal.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

class SequencesOfShard : public ::testing::Test {
 protected:
  SequencesOfShard() {
    std::string name = (fs::temp_directory_path() / "attnfuzz-sequences-XXXXXX").string();
    dir_ = mkdtemp(name.data());
  }
  ~SequencesOfShard() override { fs::remove_all(dir_); }

  std::vector<uint64_t> numbers() const {
    std::vector<uint64_t> all;
    for (const JournaledSequence& entry : sequences_in_flight(dir_)) all.push_back(entry.number);
    return all;
  }
  std::string dir_;
};

using Numbers = std::vector<uint64_t>;

JournaledSequence sequence(uint64_t number, int attempts = 1) {
  return {"cache.cpu.plain", number, attempts, "calls of " + std::to_string(number) + "\n"};
}

TEST_F(SequencesOfShard, TheOneInFlightIsKeptWithThoseBeforeItInTheProcess) {
  EXPECT_EQ(numbers(), Numbers{});
  SequenceJournal journal(dir_);
  journal.begin(sequence(6), true);
  journal.rest();
  EXPECT_EQ(numbers(), Numbers{}) << "nothing is in flight";
  journal.begin(sequence(7), true);
  journal.rest();
  journal.begin(sequence(8), false);
  EXPECT_EQ(numbers(), (Numbers{7, 8}));
  EXPECT_EQ(sequences_in_flight(dir_)[1].calls, "calls of 8\n");
  EXPECT_EQ(target_in_flight(dir_), "cache.cpu.plain");
}

TEST_F(SequencesOfShard, ANewJobKeepsThemUntilItBeginsAnew) {
  {
    SequenceJournal(dir_).begin(sequence(7), true);
  }
  SequenceJournal journal(dir_);
  EXPECT_EQ(numbers(), Numbers{7});
  journal.begin(sequence(7, 2), false);  // another attempt, which replaces the first
  EXPECT_EQ(numbers(), Numbers{7});
  EXPECT_EQ(sequences_in_flight(dir_)[0].attempts, 2);
  journal.begin(sequence(9), true);
  EXPECT_EQ(numbers(), Numbers{9});
}

TEST_F(SequencesOfShard, ALineThatAKillCutShortIsNoSequence) {
  SequenceJournal journal(dir_);
  journal.begin(sequence(7), true);
  journal.rest();
  std::ofstream(dir_ + "/sequences.jsonl", std::ios::app) << R"({"target":"cache.cpu.pl)";
  EXPECT_EQ(numbers(), Numbers{});
  journal.begin(sequence(8), false);
  EXPECT_EQ(numbers(), (Numbers{7, 8}));
}

TEST_F(SequencesOfShard, ExitsCountAgainstTheSequenceInFlight) {
  SequenceJournal journal(dir_);
  journal.begin(sequence(7), true);
  note_shard_exit(dir_);
  note_shard_exit(dir_);
  EXPECT_EQ(shard_exits(dir_, sequence(7)), 2);
  EXPECT_EQ(shard_exits(dir_, sequence(8)), 0);
  journal.rest();
  note_shard_exit(dir_);
  EXPECT_EQ(shard_exits(dir_, sequence(7)), 2) << "nothing was in flight";
}

// While one journal is in use, the other rests. A case that was in flight goes first.
TEST_F(SequencesOfShard, ACaseInFlightGoesBeforeASequence) {
  SequenceJournal(dir_).begin(sequence(7), true);
  Journal cases(dir_);
  cases.begin({"fa1.cpu.plain", "reference", Case{}, 3, 1});
  EXPECT_EQ(target_in_flight(dir_), "fa1.cpu.plain");
  note_shard_exit(dir_);
  EXPECT_EQ(shard_exits(dir_, sequence(7)), 0);
  cases.rest();
  EXPECT_EQ(target_in_flight(dir_), "cache.cpu.plain");
}

}  // namespace
}  // namespace attnfuzz
