// Tests what a session takes over from earlier sessions, and which seeded bugs it must find.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "fuzz/campaign/run/seeded_bugs.h"
#include "fuzz/campaign/store/campaign_status.h"
#include "fuzz/campaign/store/jobs/corpus_view.h"
#include "fuzz/campaign/store/jobs/folder.h"
#include "fuzz/campaign/store/lines.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

CampaignTarget target_of(const std::string& kernel, const std::string& backend, bool seeded_bug) {
  CampaignTarget target;
  target.record.name = kernel + "." + backend + ".plain";
  target.record.backend = backend;
  target.record.build = "of today";
  target.record.seeded_bug = seeded_bug;
  target.folder = kernel;
  return target;
}

class CampaignSession : public ::testing::Test {
 protected:
  CampaignSession() {
    std::string name = (fs::temp_directory_path() / "campaign-XXXXXX").string();
    options_.dir = mkdtemp(name.data());
    begin_session(options_, targets_);
    fs::create_directories(shard_dir(options_.dir, 0));
  }
  ~CampaignSession() override { fs::remove_all(options_.dir); }

  // Marks a seeded bug as found, as the triage does.
  void find(const std::string& target, int session) {
    std::vector<SeededBugResult> all = read_seeded_bugs(options_.dir);
    for (SeededBugResult& seeded_bug : all) {
      if (seeded_bug.target == target && seeded_bug.session == session)
        seeded_bug.found = true, seeded_bug.finding = "it";
    }
    write_seeded_bugs(options_.dir, all);
  }

  const std::vector<CampaignTarget> targets_ = {target_of("fa1", "cpu", false),
                                                target_of("seeded-bug", "cpu", true),
                                                target_of("seeded-bug", "cuda", true)};
  CampaignOptions options_;
};

TEST_F(CampaignSession, EachSeededBugIsDueOnceOnItsBackEnd) {
  SeededBugs seeded_bugs(options_.dir, targets_, 0);
  EXPECT_EQ(seeded_bugs.next(false), 1);
  EXPECT_EQ(seeded_bugs.next(false), std::nullopt);
  EXPECT_FALSE(seeded_bugs.due(false));
  EXPECT_TRUE(seeded_bugs.due(true));
  EXPECT_EQ(seeded_bugs.next(true), 2);
  EXPECT_FALSE(seeded_bugs.due());
  seeded_bugs.again(1);
  EXPECT_EQ(seeded_bugs.next(false), 1);
}

TEST_F(CampaignSession, ASeededBugThatWasNotFoundSaysHowLongItWasLookedFor) {
  SeededBugs seeded_bugs(options_.dir, targets_, 0);
  EXPECT_EQ(read_seeded_bugs(options_.dir).at(0).message, "it has not been run");
  seeded_bugs.ran(1, 30, 0.5, true);
  seeded_bugs.ran(1, 12, 0.5, true);
  seeded_bugs.conclude("; the disk was full", false);
  const std::vector<SeededBugResult> all = seeded_bugs.of_session();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].cases, 42u);
  EXPECT_EQ(all[0].message, "it was not found in 42 cases; the disk was full");
  EXPECT_EQ(all[1].message, "it has not been run; the disk was full");
}

TEST_F(CampaignSession, ASeededBugCountsAsFoundOnlyInItsOwnSession) {
  SeededBugs(options_.dir, targets_, 0);
  find("seeded-bug.cpu.plain", 0);
  SeededBugs seeded_bugs(options_.dir, targets_, 1);
  find("seeded-bug.cuda.plain", 1);
  seeded_bugs.ran(1, 5, 1, true);
  seeded_bugs.conclude("", false);
  const std::vector<SeededBugResult> of_session = seeded_bugs.of_session();
  ASSERT_EQ(of_session.size(), 2u);
  EXPECT_FALSE(of_session[0].found);
  EXPECT_TRUE(of_session[1].found);
  EXPECT_EQ(of_session[1].finding, "it");
  EXPECT_EQ(of_session[1].message, "");
  seeded_bugs.write();
  const std::vector<SeededBugResult> all = read_seeded_bugs(options_.dir);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_TRUE(all[0].found);
  EXPECT_EQ(all[2].cases, 5u);
}

// A signal says nothing of the harness, unless a seeded bug was looked for to the end.
TEST_F(CampaignSession, ASeededBugIsCutShortIfASignalCameFirst) {
  const auto cut_short = [&](bool to_the_end, bool interrupted, bool waits, const std::string& finding) {
    fs::remove_all(options_.dir + "/crashing");
    fs::remove(options_.dir + "/canary.json");
    SeededBugs seeded_bugs(options_.dir, targets_, 0);
    seeded_bugs.ran(1, 5, 1, to_the_end);
    Crash crash;
    crash.id = "1", crash.target = "seeded-bug.cpu.plain";
    if (waits) write_crash(options_.dir, crash, "");
    if (!finding.empty()) {
      std::vector<SeededBugResult> all = read_seeded_bugs(options_.dir);
      all.at(0).finding = finding;
      write_seeded_bugs(options_.dir, all);
    }
    seeded_bugs.conclude("", interrupted);
    CampaignHeader header = *read_header(options_.dir);
    header.sessions[0].ended = interrupted ? "interrupted" : "time";
    const SeededBugResult result = seeded_bugs.of_session().at(0);
    EXPECT_EQ(is_missed(result, header), !result.cut_short);
    return result.cut_short;
  };
  EXPECT_TRUE(cut_short(false, true, false, ""));
  EXPECT_TRUE(cut_short(true, true, true, "")) << "it has failed, and was not examined";
  EXPECT_FALSE(cut_short(true, true, false, "")) << "it did not fail in all of its time";
  EXPECT_FALSE(cut_short(false, true, false, "another kind")) << "the triage has examined its failure";
  EXPECT_FALSE(cut_short(false, false, false, "")) << "the session lasted its time";
}

// A session takes over the situations of earlier sessions if the table is the same, and the edges if the build
// is.
TEST_F(CampaignSession, TakesOverSituationsAndEdges) {
  CorpusEntry entry;
  entry.id = "0123";
  entry.kernel = "fa1";
  entry.target = "fa1.cpu.plain";
  entry.situations = {3, 5};
  entry.edges = {0, 70'000, kMostEdges};
  LineFile(shard_dir(options_.dir, 0) + "/corpus.jsonl").append(line_of(entry));
  std::ofstream(corpus_file(options_.dir, "fa1", entry.id)) << "{}";
  const std::string other = targets_[2].record.name;
  LineFile(shard_dir(options_.dir, 0) + "/confirmed.jsonl").append(confirmed_line(entry.id, other));
  const auto load = [&](const std::optional<CampaignHeader>& old) {
    SharedStatePtr shared = make_shared_state();
    load_shared_state(options_.dir, targets_, groups_of(targets_), old, *shared);
    return shared;
  };
  CampaignHeader old = read_header(options_.dir).value();
  SharedStatePtr shared = load(old);
  const Group& same = shared->groups[0];
  EXPECT_EQ(same.entries, 1u);
  EXPECT_EQ(same.known_situations, 2u);
  EXPECT_EQ(same.known_edges, 2u);
  EXPECT_EQ(same.edges[70'000], 1);
  EXPECT_EQ(same.edges[1], 0);
  const Group& confirmed = shared->groups[groups_of(targets_)[2]];
  EXPECT_EQ(confirmed.entries, 0u);
  EXPECT_EQ(confirmed.known_situations, 2u);
  EXPECT_EQ(confirmed.known_edges, 0u);

  old.targets[0].build = "of yesterday";
  old.situations = "another table";
  shared = load(old);
  EXPECT_EQ(shared->groups[0].entries, 1u);
  EXPECT_EQ(shared->groups[0].known_situations, 0u);
  EXPECT_EQ(shared->groups[0].known_edges, 0u);
}

}  // namespace
}  // namespace attnfuzz
