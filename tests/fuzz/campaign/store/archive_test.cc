// Tests that files of a campaign's folder are read as they were written, and that files which a kill left
// behind do no harm.
#include "fuzz/campaign/store/archive.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "fuzz/campaign/store/jobs/journal.h"
#include "fuzz/campaign/store/lines.h"
#include "properties/case/codec/codec.h"
#include "properties/reduce/reproducer.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

class CampaignFolder : public ::testing::Test {
 protected:
  CampaignFolder() {
    std::string name = (fs::temp_directory_path() / "campaign-XXXXXX").string();
    dir_ = mkdtemp(name.data());
    for (const char* folder : {"/shards/0", "/shards/1", "/corpus/fa1", "/crashing"})
      fs::create_directories(dir_ + folder);
  }
  ~CampaignFolder() override { fs::remove_all(dir_); }
  void write(const std::string& name, const std::string& text) { std::ofstream(dir_ + "/" + name) << text; }
  std::string dir_;
};

Case some_case(int64_t keys) {
  Case c;
  c.problem.seq_k = keys;
  c.problem.causal = true;
  c.q.seed = 7;
  return c;
}

TEST_F(CampaignFolder, HasNoHeaderBeforeItIsWritten) { EXPECT_FALSE(read_header(dir_).has_value()); }

TEST_F(CampaignFolder, HeaderIsReadAsWritten) {
  CampaignHeader header;
  header.seed = 18446744073709551615u;
  header.started = "2026-01-02T03:04:05Z";
  header.targets = {{"fa1.cpu.plain",
                     "fa1",
                     "cpu",
                     "plain",
                     "abc",
                     "def",
                     "clang",
                     "-O2",
                     "",
                     "executor",
                     "./old.so",
                     {"cpu_gpu_bits"},
                     false,
                     true,
                     "why"}};
  Session session;
  session.from = 12.5;
  session.ended = "time";
  session.builds = {{"fa1.cpu.plain", "abc"}};
  session.notes = {"a | note\nof two lines"};
  session.machine.cpu = "a CPU";
  header.sessions = {session, session};
  write_header(dir_, header);
  const CampaignHeader again = read_header(dir_).value();
  EXPECT_EQ(again.seed, header.seed);
  EXPECT_EQ(again.targets.at(0).build, "abc");
  EXPECT_EQ(again.targets.at(0).peer, "./old.so");
  EXPECT_EQ(again.targets.at(0).properties, header.targets[0].properties);
  ASSERT_EQ(again.sessions.size(), 2u);
  EXPECT_EQ(again.sessions[1].notes, session.notes);
  EXPECT_EQ(again.sessions[1].builds, session.builds);
  EXPECT_EQ(again.sessions[1].from, 12.5);
}

TEST_F(CampaignFolder, AnUnknownFormatIsRefusedByName) {
  for (const char* text : {R"({"format":1})", R"({"format":3})", R"({"format":"1"})", "{}", "[]"}) {
    write("campaign.json", text);
    try {
      read_header(dir_);
      ADD_FAILURE() << text;
    } catch (const std::runtime_error& e) {
      EXPECT_NE(std::string(e.what()).find("campaign.json is of format"), std::string::npos) << e.what();
    }
  }
}

TEST_F(CampaignFolder, HalfAHeaderIsAnError) {
  write("campaign.json", R"({"format":1,"seed":)");
  EXPECT_THROW(read_header(dir_), std::runtime_error);
}

TEST_F(CampaignFolder, StatsAreReadAsWritten) {
  ShardStats stats;
  stats.last.cases = 5;
  stats.next["fa1.cpu.plain"] = 99;
  Verdict verdict;
  verdict.property = "reference";
  verdict.worst = 0.5;
  verdict.ratios = {0.5f, 0.0f};
  verdict.plan.tile_q = verdict.plan.tile_k = 64;
  stats.targets["fa1.cpu.plain"].add(some_case(65), verdict);
  verdict.outcome = Outcome::kRefused;
  verdict.message = "no softcap";
  stats.targets["fa1.cpu.plain"].add(some_case(65), verdict);
  verdict.property = "repeat";
  verdict.message = "refused: no softcap";
  verdict.refused = true;
  stats.targets["fa1.cpu.plain"].add(some_case(65), verdict);
  write_stats(dir_, 1, stats);
  const ShardStats again = read_stats(dir_, 1);
  EXPECT_EQ(again.next, stats.next);
  const TargetStats& t = again.targets.at("fa1.cpu.plain");
  const PropertyStats& p = t.properties.at("reference");
  EXPECT_EQ(p.cases, 2u);
  EXPECT_EQ(p.rejected, 1u);
  EXPECT_EQ(p.ratios.worst(), 0.5);
  EXPECT_EQ(p.ratios.count(), 4u);
  EXPECT_EQ(p.ratios.buckets(), stats.targets.at("fa1.cpu.plain").properties.at("reference").ratios.buckets());
  EXPECT_EQ(t.rejections.at("reference: no softcap"), 1u);
  EXPECT_EQ(t.rejections.at("repeat: refused: no softcap"), 1u);
  EXPECT_EQ(t.refused, 1u) << "of a property's own rejections nothing is the kernel's";
  TargetStats twice = t;
  twice.merge(t);
  EXPECT_EQ(twice.refused, 2u);
  EXPECT_EQ(t.features.counts.at("causal"), 3u);
  EXPECT_EQ((t.heat.at({heat_bucket(1), heat_bucket(65)}).cases), 3u);
  EXPECT_TRUE(read_stats(dir_, 0).targets.empty());
}

TEST(HeatBucket, HasOneBucketAnOctave) {
  const std::pair<int64_t, int> expected[] = {{0, 0}, {1, 1},  {2, 2},  {3, 3},  {4, 3},
                                              {5, 4}, {64, 7}, {65, 8}, {128, 8}};
  for (const auto& [length, bucket] : expected) EXPECT_EQ(heat_bucket(length), bucket) << length;
}

TEST_F(CampaignFolder, ACrashIsWholeOrNotThere) {
  Crash crash;
  crash.id = "abc-fa1.cpu.plain";
  crash.target = "fa1.cpu.plain";
  crash.property = "reference";
  crash.c = some_case(65);
  crash.message = "O is \"wrong\"\nbadly";
  write_crash(dir_, crash, "trace\n");
  write_crash(dir_, crash, "trace\n");  // the same once more
  fs::create_directories(dir_ + "/crashing/.half");
  fs::create_directories(dir_ + "/crashing/emptied");
  const std::vector<Crash> crashes = read_crashes(dir_);
  ASSERT_EQ(crashes.size(), 1u);
  EXPECT_EQ(crashes[0].c, crash.c);
  EXPECT_EQ(crashes[0].message, crash.message);
}

TEST_F(CampaignFolder, FindingsAreReadAsWritten) {
  Finding f;
  f.name = "fa1-wrong-123456";
  f.key = "k|e|y";
  f.repeats = Repeats::kSometimes;
  f.failed = 3, f.runs = 10;
  f.needs = {{.part = "causal", .text = "causal (top-left)"}};
  write_findings(dir_, {{f}, {f, f}});
  const FindingsFile again = read_findings(dir_);
  ASSERT_EQ(again.findings.size(), 1u);
  EXPECT_EQ(again.never_again.size(), 2u);
  EXPECT_EQ(again.findings[0].key, f.key);
  EXPECT_EQ(again.findings[0].repeats, Repeats::kSometimes);
  EXPECT_EQ(again.findings[0].needs, f.needs);
}

// Whatever bytes a plug-in prints, the campaign continues, and its files can be read.
TEST_F(CampaignFolder, BytesThatAreNoUtf8AreReplaced) {
  const std::string bad = "softcap \xff\xfe is \xc3";
  const std::string kept = "softcap \xef\xbf\xbd\xef\xbf\xbd is \xef\xbf\xbd";
  Crash crash;
  crash.id = "abc-t";
  crash.target = "t";
  crash.c = some_case(65);
  crash.message = crash.shape = bad;
  write_crash(dir_, crash, "");
  ASSERT_EQ(read_crashes(dir_).size(), 1u);
  EXPECT_EQ(read_crashes(dir_)[0].message, kept);

  Finding f;
  f.name = "wrong-1";
  f.message = bad;
  write_findings(dir_, {{f}, {}});
  EXPECT_EQ(read_findings(dir_).findings.at(0).message, kept);

  CampaignHeader header;
  header.targets.resize(1);
  header.targets[0].device = bad;
  header.sessions.resize(1);
  header.sessions[0].notes = {bad};
  header.sessions[0].builds = {{bad, "hash"}};
  write_header(dir_, header);
  EXPECT_EQ(read_header(dir_)->sessions.at(0).notes.at(0), kept);

  SeededBugResult seeded_bug;
  seeded_bug.message = bad;
  write_seeded_bugs(dir_, {seeded_bug});
  EXPECT_EQ(read_seeded_bugs(dir_).at(0).message, kept);

  SeriesLine line;
  line.target = bad;
  EXPECT_EQ(parse_series_line(line_of(line))->target, kept);
  CorpusEntry entry;
  entry.id = "5eed", entry.kernel = "fa1";
  entry.target = bad;
  EXPECT_EQ(parse_corpus_line(line_of(entry))->target, kept);

  Journal journal(shard_dir(dir_, 0));
  journal.begin({bad, "reference", some_case(65), 1});
  ASSERT_TRUE(in_flight(shard_dir(dir_, 0)).has_value());
  EXPECT_EQ(in_flight(shard_dir(dir_, 0))->target, kept);
}

TEST_F(CampaignFolder, ReasonsOfAnyBytesAreCountedAcrossSlices) {
  Verdict refused;
  refused.property = "reference";
  refused.outcome = Outcome::kRefused;
  ShardStats stats;
  for (const char* reason : {"no \xff", "no \xfe"}) {
    refused.message = reason;
    stats.targets["t"].add(some_case(65), refused);
  }
  write_stats(dir_, 0, stats);
  // The next slice reads the stats, and the same reason comes again.
  stats = read_stats(dir_, 0);
  stats.targets["t"].add(some_case(65), refused);
  write_stats(dir_, 0, stats);
  const auto rejections = read_stats(dir_, 0).targets.at("t").rejections;
  EXPECT_EQ(rejections,
            (std::map<std::string, uint64_t>{{R"(reference: no \xfe)", 2}, {R"(reference: no \xff)", 1}}));
}

TEST_F(CampaignFolder, ACorpusEntryWithoutItsLineIsStillAnEntry) {
  const Case c = some_case(65);
  CorpusEntry entry;
  entry.id = digest(c);
  entry.kernel = "fa1";
  entry.target = "fa1.cpu.plain";
  entry.property = "gqa";
  entry.situations = {3, 5};
  entry.edges = {7, 70'000};
  write_file(corpus_file(dir_, "fa1", entry.id), encode(c));
  write_file(corpus_file(dir_, "fa1", "0123"), encode(some_case(1)));
  {
    LineFile lines(shard_dir(dir_, 1) + "/corpus.jsonl");
    lines.append(line_of(entry));
  }
  const std::vector<CorpusEntry> entries = read_corpus(dir_);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].situations, entry.situations);
  EXPECT_EQ(entries[0].edges, entry.edges);
  EXPECT_EQ(read_corpus_case(dir_, entries[0]), c);
  EXPECT_EQ(entries[1].id, "0123");
  EXPECT_TRUE(entries[1].target.empty());
}

// A campaign that began before edges were kept is continued; its entries have only situations.
TEST_F(CampaignFolder, ACorpusLineWithoutEdgesIsRead) {
  CorpusEntry entry;
  entry.id = "5eed", entry.kernel = "fa1";
  entry.target = "fa1.cpu.coverage";
  entry.situations = {3, 5};
  std::string line = line_of(entry);
  line.replace(line.find("edges"), 5, "coverage");
  const auto again = parse_corpus_line(line);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->situations, entry.situations);
  EXPECT_TRUE(again->edges.empty());
}

TEST_F(CampaignFolder, ALineCutShortIsSkippedAndEndedByTheNext) {
  const std::string path = dir_ + "/lines";
  write("lines", "one\ntwo\nthr");
  EXPECT_EQ(read_lines(path), (std::vector<std::string>{"one", "two"}));
  LineTail tail(path);
  EXPECT_EQ(tail.more().size(), 2u);
  LineFile(path).append("four");
  EXPECT_EQ(read_lines(path), (std::vector<std::string>{"one", "two", "thr", "four"}));
  EXPECT_EQ(tail.more(), (std::vector<std::string>{"thr", "four"}));
}

TEST_F(CampaignFolder, TheJournalNamesTheCaseInFlightAndTheLast64) {
  const std::string shard = shard_dir(dir_, 0);
  EXPECT_FALSE(in_flight(shard).has_value());
  Journal journal(shard);
  for (int i = 0; i < 200; ++i) {
    journal.begin({"fa1.cpu.plain", "reference", some_case(i), static_cast<uint64_t>(i)});
    const auto now = in_flight(shard);
    ASSERT_TRUE(now.has_value());
    EXPECT_EQ(now->index, static_cast<uint64_t>(i));
    const std::vector<Journaled> trace = trace_of(shard);
    ASSERT_EQ(trace.size(), std::min<size_t>(i + 1, Journal::kTrace));
    EXPECT_EQ(trace.front().index, static_cast<uint64_t>(std::max(0, i - Journal::kTrace + 1)));
    EXPECT_EQ(trace.back().c, some_case(i));
  }
  EXPECT_EQ(parse_trace(text_of(trace_of(shard))).size(), static_cast<size_t>(Journal::kTrace));
  journal.rest();
  EXPECT_FALSE(in_flight(shard).has_value());
}

TEST_F(CampaignFolder, AJournalCutShortStillHasTheCasesBefore) {
  const std::string shard = shard_dir(dir_, 0);
  {
    Journal journal(shard);
    journal.begin({"t", "reference", some_case(1), 1});
    journal.begin({"t", "reference", some_case(2), 2});
  }
  fs::resize_file(shard + "/trace-0.jsonl", fs::file_size(shard + "/trace-0.jsonl") - 20);
  EXPECT_EQ(in_flight(shard)->index, 1u);
}

}  // namespace
}  // namespace attnfuzz
