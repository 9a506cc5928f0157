// Tests which parts of a campaign's folder are told as lost or idle.
#include "fuzz/campaign/store/campaign_status.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "fuzz/campaign/store/campaign_options.h"
#include "fuzz/campaign/store/jobs/folder.h"

namespace attnfuzz {
namespace {

class LostParts : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::TempDir() + "lost-" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(dir_);
    for (const int n : {0, 1, 2, 3}) {
      std::filesystem::create_directories(shard_dir(dir_, n));
      write_stats(dir_, n, {});
    }
    Session session;
    session.ended = "time";
    session.jobs = 12;
    session.gpus = 1;
    session.shards = {0, 1, 2, 3};
    header_.sessions = {session};
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::vector<std::string> lost() const { return lost_parts(dir_, header_, {}); }
  std::string dir_;
  CampaignHeader header_;
};

// Older versions wrote jobs = 12 for a campaign that had four jobs on a GPU and none on the CPU.
TEST_F(LostParts, AreNotJobsOfTheCpuIfAllTargetsAreOnAGpu) {
  header_.sessions[0].builds = {{"fa1.cuda.plain", "1234"}, {"a.cpu.b.cuda.plain", "1234"}};
  EXPECT_TRUE(lost().empty());
  EXPECT_EQ(idle_jobs(header_), "");
  std::filesystem::remove(shard_dir(dir_, 3) + "/stats.json");
  EXPECT_EQ(lost().size(), 1u) << "a job on the GPU";
}

TEST_F(LostParts, AreJobsOfTheCpuIfATargetIsOnIt) {
  header_.sessions[0].builds = {{"fa1.cuda.plain", "1234"}, {"a.cuda.b.cpu.plain", "1234"}};
  EXPECT_EQ(lost().size(), 8u);
  EXPECT_EQ(idle_jobs(header_), "of 12 jobs these began no case: 4, 5, 6, 7, 8, 9, 10, 11");
  header_.sessions[0].builds.clear();
  EXPECT_EQ(lost().size(), 8u) << "it is not known where the targets were";
}

TEST_F(LostParts, DependOnTheJobsThatASessionHas) {
  CampaignOptions options;
  options.jobs = 12;
  CampaignTarget gpu, cpu;
  gpu.record.name = "fa1.cuda.plain", gpu.record.backend = "cuda", gpu.folder = "fa1";
  cpu.record.name = "fa1.cpu.plain", cpu.record.backend = "cpu", cpu.folder = "fa1";
  options.dir = dir_ + "/gpu";
  EXPECT_EQ(begin_session(options, {gpu}).sessions[0].jobs, 0);
  options.dir = dir_ + "/both";
  EXPECT_EQ(begin_session(options, {gpu, cpu}).sessions[0].jobs, 12);
}

// Each of them may be another bug.
TEST(CampaignStatus, IsNoPassIfFailuresWereNeverLookedAt) {
  CampaignHeader header;
  header.targets.resize(2);
  header.targets[0].name = "t";
  header.targets[1].name = "seeded-bug.cpu.plain";
  header.targets[1].seeded_bug = true;
  header.sessions.resize(1);
  FindingsFile findings;
  findings.findings.resize(1);
  findings.findings[0].tolerated = "issue 1";
  StatsOfShards shards;
  TargetStats& stats = shards[0]["t"];
  stats.rows = 1;
  shards[0]["seeded-bug.cpu.plain"].not_filed["wrong"] = 3;
  const auto status = [&] { return campaign_status(findings, 0, {}, header, not_judged(header, shards)); };
  for (const char* ended : {"", "interrupted", "time"}) {
    header.sessions[0].ended = ended;
    stats.not_filed.clear();
    stats.of_one_site = 7;  // these are known to be at the place of one that was filed
    EXPECT_EQ(status(), CampaignStatus::kPassed) << ended;
    stats.not_filed["wrong"] = 3;
    EXPECT_EQ(status(), CampaignStatus::kUnknown) << ended;
    stats.not_filed.clear();
    stats.sequences.not_filed["wrong"] = 4;
    EXPECT_EQ(status(), CampaignStatus::kUnknown) << ended;
    EXPECT_EQ(not_judged(header, shards).at(0).find("t: 4 failure(s) were counted and never looked at"), 0u);
    stats.sequences.not_filed.clear();
  }
}

}  // namespace
}  // namespace attnfuzz
