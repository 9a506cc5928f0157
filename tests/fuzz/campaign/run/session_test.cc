// What a session takes over from those before it, and the planted bugs that it owes.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "fuzz/campaign/run/canaries.h"
#include "fuzz/campaign/store/corpus_view.h"
#include "fuzz/campaign/store/folder.h"
#include "fuzz/campaign/store/lines.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

CampaignTarget target_of(const std::string& kernel, const std::string& backend, bool canary) {
  CampaignTarget target;
  target.record.name = kernel + "." + backend + ".plain";
  target.record.backend = backend;
  target.record.build = "of today";
  target.record.canary = canary;
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

  // Of this session, as a triage would find it.
  void find(const std::string& target, int session) {
    std::vector<Canary> all = read_canaries(options_.dir);
    for (Canary& canary : all) {
      if (canary.target == target && canary.session == session) canary.found = true, canary.finding = "it";
    }
    write_canaries(options_.dir, all);
  }

  const std::vector<CampaignTarget> targets_ = {
      target_of("fa1", "cpu", false), target_of("canary", "cpu", true), target_of("canary", "cuda", true)};
  CampaignOptions options_;
};

TEST_F(CampaignSession, EachCanaryIsDueOnceOnItsBackEnd) {
  Canaries canaries(options_.dir, targets_, 0);
  EXPECT_EQ(canaries.next(false), 1);
  EXPECT_EQ(canaries.next(false), std::nullopt);
  EXPECT_FALSE(canaries.due(false));
  EXPECT_TRUE(canaries.due(true));
  EXPECT_EQ(canaries.next(true), 2);
  EXPECT_FALSE(canaries.due());
  canaries.again(1);
  EXPECT_EQ(canaries.next(false), 1);
}

TEST_F(CampaignSession, ACanaryThatWasNotFoundSaysHowLongItWasLookedFor) {
  Canaries canaries(options_.dir, targets_, 0);
  EXPECT_EQ(read_canaries(options_.dir).at(0).message, "it has not been run");
  canaries.ran(1, 30, 0.5);
  canaries.ran(1, 12, 0.5);
  canaries.conclude("; the disk was full");
  const std::vector<Canary> all = canaries.of_session();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].cases, 42u);
  EXPECT_EQ(all[0].message, "it was not found in 42 cases; the disk was full");
  EXPECT_EQ(all[1].message, "it has not been run; the disk was full");
}

TEST_F(CampaignSession, ACanaryIsFoundInItsOwnSessionAlone) {
  Canaries(options_.dir, targets_, 0);
  find("canary.cpu.plain", 0);
  Canaries canaries(options_.dir, targets_, 1);
  find("canary.cuda.plain", 1);
  canaries.ran(1, 5, 1);
  canaries.conclude("");
  const std::vector<Canary> of_session = canaries.of_session();
  ASSERT_EQ(of_session.size(), 2u);
  EXPECT_FALSE(of_session[0].found);
  EXPECT_TRUE(of_session[1].found);
  EXPECT_EQ(of_session[1].finding, "it");
  EXPECT_EQ(of_session[1].message, "");
  canaries.write();
  const std::vector<Canary> all = read_canaries(options_.dir);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_TRUE(all[0].found);
  EXPECT_EQ(all[2].cases, 5u);
}

// What has been seen is known again, situations by the table and edges by the build.
TEST_F(CampaignSession, TakesOverWhatHasBeenSeen) {
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
