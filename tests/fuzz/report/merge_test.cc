// Tests that a merge of several campaigns loses nothing and counts nothing twice.
#include "fuzz/slurm/merge.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "fuzz/campaign/store/campaign_status.h"
#include "fuzz/report/report.h"
#include "tests/fuzz/report/night.h"

namespace attnfuzz {
namespace {

class Merge : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "merge-" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
    make_night(at("a"));
    make_night(at("b"));
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::string at(const std::string& name) const { return root_ + "/" + name; }
  MergeSummary merge(const std::vector<std::string>& names) {
    std::vector<std::string> dirs;
    for (const std::string& name : names) dirs.push_back(at(name));
    return merge_campaigns(dirs, at("merged"), {"attnfuzz", "merge"});
  }
  std::string root_;
};

TEST_F(Merge, KeepsDifferentFindingsAndAddsUpEqualOnes) {
  FindingsFile findings = read_findings(at("b"));
  findings.findings[0].count = 5;
  findings.findings[0].t = 1;
  findings.findings[1].key += " of another bug";
  findings.findings[1].name += "-other";
  std::filesystem::copy_file(at("b/findings/") + read_findings(at("a")).findings[1].name + ".attn.json",
                             at("b/findings/") + findings.findings[1].name + ".attn.json");
  write_findings(at("b"), findings);
  Crash crash;
  crash.id = "0123";
  crash.target = "fa1.cpu.plain";
  write_crash(at("b"), crash, "");

  const MergeSummary s = merge({"a", "b"});
  EXPECT_EQ(s.merged, 2u);
  EXPECT_EQ(s.shards, 6u);
  EXPECT_EQ(s.corpus, 20u) << "the same cases in both";
  EXPECT_EQ(s.findings, 4u);
  EXPECT_EQ(s.same, 2u);
  const FindingsFile merged = read_findings(at("merged"));
  EXPECT_EQ(merged.findings[0].count, 17u + 5u);
  EXPECT_EQ(merged.findings[0].t, 1) << "the earliest time of all campaigns";
  EXPECT_TRUE(std::filesystem::exists(at("merged/findings/") + findings.findings[1].name + ".attn.json"));
  EXPECT_EQ(merged.never_again.size(), 2u);
  EXPECT_EQ(read_crashes(at("merged")).size(), 1u);
  const CampaignHeader header = *read_header(at("merged"));
  EXPECT_EQ(header.sessions.size(), 4u);
  EXPECT_EQ(header.targets.size(), 2u);
  const std::vector<SeededBugResult> seeded_bugs = read_seeded_bugs(at("merged"));
  ASSERT_EQ(seeded_bugs.size(), 4u);
  EXPECT_EQ(seeded_bugs[3].session, 3);
  EXPECT_EQ(read_series(at("merged"), 4).size(), read_series(at("b"), 1).size());
}

TEST_F(Merge, NamesWhatATaskHasLost) {
  CampaignHeader header = *read_header(at("b"));
  header.sessions[1].shards = {0, 1, 2};
  header.sessions[1].builds = {{"seeded-bug.cpu.msan", "1234"}};
  write_header(at("b"), header);
  std::filesystem::remove(shard_dir(at("b"), 1) + "/stats.json");
  std::filesystem::remove_all(shard_dir(at("a"), 2));  // a has no list of shards, as older folders
  std::filesystem::remove(shard_dir(at("a"), 0) + "/stats.json");
  const MergeSummary s = merge({"a", "b"});
  ASSERT_EQ(s.left_out.size(), 4u);
  EXPECT_NE(s.left_out[0].find("shards/0/stats.json is missing"), std::string::npos);
  EXPECT_NE(s.left_out[1].find("shards/2 is missing"), std::string::npos);
  EXPECT_NE(s.left_out[2].find("shards/1/stats.json is missing"), std::string::npos);
  EXPECT_NE(s.left_out[3].find("no result of seeded-bug.cpu.msan in session 2"), std::string::npos);
  const CampaignHeader merged = *read_header(at("merged"));
  EXPECT_EQ(merged.sessions[3].shards, (std::vector<int>{3, 4, 5})) << "a has the shards 0 to 2";
  const std::vector<std::string> lost = lost_parts(at("merged"), merged, read_seeded_bugs(at("merged")));
  ASSERT_EQ(lost.size(), 4u) << "the merged folder says so as well";
  EXPECT_NE(lost[0].find("shards/0/stats.json is missing"), std::string::npos);
  EXPECT_NE(lost[1].find("shards/2 is missing"), std::string::npos);
  EXPECT_NE(lost[2].find("shards/4/stats.json is missing"), std::string::npos);
}

// The second campaign's jobs 0 to 2 have the shards 3 to 5 in the merged folder.
TEST_F(Merge, KnowsTheJobsOfEachSession) {
  const auto lost = [&] {
    return lost_parts(at("merged"), *read_header(at("merged")), read_seeded_bugs(at("merged")));
  };
  CampaignHeader header = *read_header(at("b"));
  header.sessions[1].shards = {0, 1, 2};
  write_header(at("b"), header);
  merge({"a", "b"});
  EXPECT_EQ(idle_jobs(*read_header(at("merged"))), "");
  EXPECT_TRUE(lost().empty());

  header.sessions[1].shards = {0, 2};
  write_header(at("b"), header);
  merge({"a", "b"});
  const std::string idle = at("b") + ", of 3 jobs these began no case: 1";
  EXPECT_EQ(idle_jobs(*read_header(at("merged"))), "in " + idle);
  std::filesystem::rename(at("merged"), at("once"));
  merge({"a", "once"});
  CampaignHeader merged = *read_header(at("merged"));
  EXPECT_EQ(idle_jobs(merged), "in " + at("once") + ": " + idle);
  EXPECT_TRUE(lost().empty());
  std::filesystem::remove_all(shard_dir(at("merged"), 7));
  ASSERT_EQ(lost().size(), 1u) << "the folder of that job";
  EXPECT_NE(lost()[0].find("shards/7 is missing"), std::string::npos);

  for (Session& session : merged.sessions) session.job_shards.clear();
  write_header(at("merged"), merged);
  EXPECT_EQ(idle_jobs(merged), "") << "an older version did not note the jobs of a merged session";
  EXPECT_TRUE(lost().empty());
}

TEST(IdleJobs, AreNamed) {
  CampaignHeader header;
  EXPECT_EQ(idle_jobs(header), "");
  header.sessions.resize(1);
  header.sessions[0].jobs = 3;
  EXPECT_EQ(idle_jobs(header), "") << "it still runs";
  header.sessions[0].shards = {1};
  EXPECT_EQ(idle_jobs(header), "of 3 jobs these began no case: 0, 2");
  header.sessions[0].shards = {0, 1, 2};
  EXPECT_EQ(idle_jobs(header), "");
}

TEST_F(Merge, NotesAnotherBuild) {
  CampaignHeader header = *read_header(at("b"));
  header.targets[0].build = "another";
  write_header(at("b"), header);
  merge({"a", "b"});
  const auto targets = read_header(at("merged"))->targets;
  ASSERT_EQ(targets.size(), 3u);
  EXPECT_NE(targets[2].device.find("another build, in " + at("b")), std::string::npos);
}

// A target passes only if its sequences of calls are judged, so a merge must know that some campaign had them.
TEST_F(Merge, KnowsSequencesOfEachCampaign) {
  CampaignHeader with = *read_header(at("b"));
  ASSERT_FALSE(with.targets[0].sequences);
  with.targets[0].sequences = true;
  with.targets[1].no_sequences = "it has no pages";
  write_header(at("b"), with);
  for (const std::vector<std::string>& names : {std::vector<std::string>{"a", "b"}, {"b", "a"}}) {
    merge(names);
    const auto targets = read_header(at("merged"))->targets;
    ASSERT_EQ(targets.size(), 2u);
    EXPECT_TRUE(targets[0].sequences) << names[0] << " is first";
    EXPECT_EQ(targets[1].no_sequences, "it has no pages");
  }
  // In this one they were left out, which does not hold for both.
  CampaignHeader without = *read_header(at("a"));
  without.targets[0].no_sequences = "the ledger quarantines cases of it";
  write_header(at("a"), without);
  merge({"a", "b"});
  EXPECT_TRUE(read_header(at("merged"))->targets[0].sequences);
  EXPECT_EQ(read_header(at("merged"))->targets[0].no_sequences, "");
}

TEST_F(Merge, LeavesOutUnreadableFiles) {
  std::filesystem::create_directories(at("begun"));
  std::ofstream(at("b") + "/shards/0/stats.json") << "{";
  const MergeSummary s = merge({"begun", "a", "b"});
  EXPECT_EQ(s.merged, 1u);
  ASSERT_EQ(s.left_out.size(), 2u);
  EXPECT_NE(s.left_out[0].find("begun"), std::string::npos);
  EXPECT_NE(s.left_out[1].find("stats.json"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(at("merged.merging")));
}

bool names(const MergeSummary& s, const std::string& what) {
  return std::ranges::any_of(s.left_out, [&](const std::string& one) { return one.starts_with(what); });
}

// Anyone may have written the folder.
TEST_F(Merge, FollowsNoLinkAndCopiesNothingLarge) {
  namespace fs = std::filesystem;
  fs::create_directories(at("private/folder"));
  std::ofstream(at("private/folder/secret")) << "s";
  fs::create_directory_symlink(at("private/folder"), at("b/corpus/z"));
  fs::create_symlink(at("private/folder/secret"), at("b/findings/q.md"));
  fs::remove_all(at("b/canary"));
  fs::create_directory_symlink(at("private"), at("b/canary"));
  std::ofstream(at("b/findings/big.md")) << "";
  fs::resize_file(at("b/findings/big.md"), uintmax_t{3} << 30);
  const MergeSummary s = merge({"a", "b"});
  EXPECT_EQ(s.merged, 2u);
  for (const char* what : {"b/corpus/z", "b/findings/q.md", "b/canary"})
    EXPECT_TRUE(names(s, at(what) + " is a link")) << what;
  EXPECT_TRUE(names(s, at("b/findings/big.md") + " is larger"));
  for (const char* what : {"corpus/z", "findings/q.md", "canary/folder", "findings/big.md"})
    EXPECT_FALSE(fs::exists(fs::symlink_status(at(std::string("merged/") + what)))) << what;
}

TEST_F(Merge, LeavesOutAFolderOfLinkedShards) {
  std::filesystem::rename(at("b/shards"), at("elsewhere"));
  std::filesystem::create_directory_symlink(at("elsewhere"), at("b/shards"));
  const MergeSummary s = merge({"a", "b"});
  EXPECT_EQ(s.merged, 1u);
  EXPECT_TRUE(names(s, at("b/shards is a link")));
}

TEST_F(Merge, RefusesNamesThatAreNoFiles) {
  for (const char* name : {"../../planted", "..", ""}) {
    FindingsFile findings = read_findings(at("a"));
    findings.findings[0].name = name;
    write_findings(at("b"), findings);
    const MergeSummary s = merge({"a", "b"});
    EXPECT_EQ(s.merged, 1u);
    EXPECT_TRUE(names(s, at("b/findings.json") + " names a finding '" + name + "', which is no file's name"));
  }
  write_findings(at("b"), {});
  Crash crash;
  crash.id = "1234";
  crash.target = "fa1.cpu.plain";
  write_crash(at("b"), crash, "");
  EXPECT_EQ(merge({"a", "b"}).merged, 2u);
  const std::string file = at("b/crashing/1234/crash.json");
  std::string text = file_text(file);
  text.replace(text.find("1234"), 4, "../../../x");
  write_file(file, text);
  EXPECT_THROW(read_crashes(at("b")), std::runtime_error) << "its folder is removed once it is reduced";
}

TEST_F(Merge, ReplacesAnEarlierMergeAndNothingElse) {
  EXPECT_EQ(merge({"a", "b"}).shards, 6u);
  EXPECT_EQ(merge({"a"}).shards, 3u);
  EXPECT_EQ(shards_of(at("merged")).size(), 3u);
  EXPECT_THROW(merge_campaigns({at("a")}, at("b"), {"attnfuzz", "merge"}), std::runtime_error);
  EXPECT_EQ(shards_of(at("b")).size(), 3u);
  EXPECT_THROW(merge({"nothing"}), std::runtime_error);
  EXPECT_EQ(shards_of(at("merged")).size(), 3u) << "as it was";
}

// The status of a merge is that of the worst campaign, whichever is named last.
class MergedStatus : public Merge {
 protected:
  void SetUp() override {
    Merge::SetUp();
    for (const char* name : {"a", "b"}) {
      std::filesystem::remove_all(at(name));
      make_night(at(name), {.green = true});
    }
    merge_both_ways(CampaignStatus::kPassed);
  }
  void merge_both_ways(CampaignStatus due, const std::string& why = "") {
    for (const std::vector<std::string>& names : {std::vector<std::string>{"a", "b"}, {"b", "a"}}) {
      EXPECT_TRUE(merge(names).left_out.empty());
      expect(due, why);
    }
  }
  void expect(CampaignStatus due, const std::string& why = "") const {
    const report::Report report = report::read_report(at("merged"));
    EXPECT_EQ(report.status, due);
    EXPECT_TRUE(report.problems.empty());
    if (!why.empty()) EXPECT_THAT(report.not_judged, testing::Contains(testing::HasSubstr(why)));
  }
  void end(const std::string& name, const std::string& how) const {
    CampaignHeader header = *read_header(at(name));
    header.sessions.back().ended = how;
    write_header(at(name), header);
  }
};

TEST_F(MergedStatus, IsNoPassIfADiskWasFull) {
  end("a", kDiskFull);
  merge_both_ways(CampaignStatus::kUnknown);
}

// In one folder such a session goes on. In a merge none does.
TEST_F(MergedStatus, IsNoPassIfACampaignWasBrokenOffBeforeItJudged) {
  for (const int n : shards_of(at("a"))) write_stats(at("a"), n, {});
  for (const char* ended : {"time", "interrupted", "killed", ""}) {
    end("a", ended);
    merge_both_ways(CampaignStatus::kUnknown, "in " + at("a") + ", splitk.cpu.plain: no case was drawn");
  }
}

TEST_F(MergedStatus, IsNoPassIfACampaignWasKilledOrStillRuns) {
  end("a", "interrupted");
  merge_both_ways(CampaignStatus::kPassed);  // it has judged enough
  for (const char* ended : {"killed", ""}) {
    end("a", ended);
    merge_both_ways(CampaignStatus::kUnknown, "in " + at("a") + ", the last session still ran, or was killed");
  }
}

TEST_F(MergedStatus, IsThatOfAllCampaignsOfAMergeOfMerges) {
  end("a", kDiskFull);
  merge({"a", "b"});
  std::filesystem::rename(at("merged"), at("once"));
  make_night(at("c"), {.green = true});
  merge({"once", "c"});
  expect(CampaignStatus::kUnknown);
  EXPECT_EQ(read_header(at("merged"))->merged.size(), 3u);
  // A session that goes on from the merged folder is of all of it.
  CampaignHeader header = *read_header(at("merged"));
  header.sessions.push_back(header.sessions.back());
  write_header(at("merged"), header);
  expect(CampaignStatus::kPassed);
  std::filesystem::rename(at("merged"), at("twice"));
  merge({"twice", "b"});
  expect(CampaignStatus::kPassed);
}

// A kernel of one campaign need not be one of the others.
TEST_F(MergedStatus, AsksEachCampaignForItsOwnTargets) {
  CampaignHeader header = *read_header(at("a"));
  std::erase_if(header.targets, [](const TargetRecord& target) { return target.kernel == "splitk"; });
  write_header(at("a"), header);
  for (const int n : shards_of(at("a"))) {
    ShardStats stats = read_stats(at("a"), n);
    stats.targets.erase("splitk.cpu.plain");
    write_stats(at("a"), n, stats);
  }
  merge_both_ways(CampaignStatus::kPassed);
}

TEST_F(MergedStatus, IsOfANewFindingIfTheLedgerOfOneCampaignLacksIt) {
  make_night(at("c"));
  FindingsFile findings = read_findings(at("c"));
  const std::string name = findings.findings[0].name;
  findings.findings.resize(1);
  findings.never_again.clear();
  write_findings(at("b"), findings);
  findings.findings[0].tolerated = "issue 1";
  write_findings(at("a"), findings);
  for (const char* folder : {"a", "b"})
    std::filesystem::copy_file(at("c/findings/") + name + ".attn.json",
                               at(folder) + "/findings/" + name + ".attn.json");
  merge_both_ways(CampaignStatus::kFound);
  write_findings(at("b"), findings);
  merge_both_ways(CampaignStatus::kPassed);
}

TEST_F(Merge, NamesACampaignThatNeverBegan) {
  std::filesystem::create_directories(at("empty"));
  CampaignHeader header = *read_header(at("b"));
  header.sessions.clear();
  write_header(at("b"), header);
  const MergeSummary s = merge({"a", "b", "empty"});
  EXPECT_EQ(s.merged, 1u);
  EXPECT_TRUE(names(s, at("b") + ": no session of its campaign has begun"));
  EXPECT_TRUE(names(s, at("empty") + ": there is no campaign in it"));
}

}  // namespace
}  // namespace attnfuzz
