// Tests which exits count against a case that was running when its process ended.
#include "fuzz/campaign/store/jobs/journal.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "fuzz/campaign/triage/triage.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

class Folder : public ::testing::Test {
 protected:
  Folder() {
    std::string name = (fs::temp_directory_path() / "attnfuzz-journal-XXXXXX").string();
    dir_ = mkdtemp(name.data());
  }
  ~Folder() override { fs::remove_all(dir_); }
  std::string dir_;
};

Journaled entry_of(uint64_t index) { return {"fa1.cpu.plain", "reference", Case{}, index, 1}; }

TEST_F(Folder, KillsOfTheSupervisorCountForNothing) {
  for (int kills = 0; kills < 15; ++kills) {
    Journal journal(dir_);
    journal.begin(entry_of(7));
    // The supervisor is killed here, and the shard's process with it, so no exit is noted.
    EXPECT_EQ(shard_exits(dir_, *in_flight(dir_)), 0);
  }
}

TEST_F(Folder, ExitsOfOnlyTheShardAreCountedInARow) {
  Journal journal(dir_);
  note_shard_exit(dir_);
  journal.begin(entry_of(7));
  EXPECT_EQ(shard_exits(dir_, entry_of(7)), 0) << "nothing was in flight";
  note_shard_exit(dir_);
  note_shard_exit(dir_);
  EXPECT_EQ(shard_exits(dir_, entry_of(7)), 2);
  EXPECT_EQ(shard_exits(dir_, entry_of(8)), 0);
  journal.begin(entry_of(8));
  note_shard_exit(dir_);
  EXPECT_EQ(shard_exits(dir_, entry_of(8)), 1);
  EXPECT_EQ(shard_exits(dir_, entry_of(7)), 0) << "another case came between";
}

TEST_F(Folder, ExitsOfTriageAreCountedAgainstTheCrashInHand) {
  const std::string crash = dir_ + "/crashing/1", other = dir_ + "/crashing/2";
  fs::create_directories(crash);
  fs::create_directories(other);
  const auto attempts = [](const std::string& folder) {
    std::ifstream in(folder + "/attempts");
    int n = 0;
    in >> n;
    return n;
  };
  std::ofstream(crash + "/in_hand").close();
  note_triage_exit(dir_);
  note_triage_exit(dir_);  // the triage has no crash in hand any more
  EXPECT_EQ(attempts(crash), 1);
  EXPECT_EQ(attempts(other), 0);
}

}  // namespace
}  // namespace attnfuzz
