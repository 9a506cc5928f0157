// Tests which findings are duplicates, what the ledger knows, and which crash is reduced next.
#include "fuzz/campaign/triage/triage.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "fuzz/campaign/store/jobs/folder.h"
#include "fuzz/campaign/store/ledger.h"
#include "fuzz/campaign/store/seeded_bug.h"
#include "fuzz/campaign/triage/files/issue_text.h"
#include "fuzz/campaign/triage/run_again.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

Reproducer found(const std::string& kernel, const std::string& build_kind) {
  Reproducer r;
  r.kernel = kernel;
  r.kind = "wrong";
  r.c.build_kind = build_kind;
  r.c.problem.seq_k = 65;
  return r;
}

TEST(DedupeKey, IsTheSameForAllBuildsOfAKernel) {
  const std::string key = dedupe_key(without_build(found("fa1", "plain"), "fa1"));
  EXPECT_EQ(key, dedupe_key(without_build(found("fa1", "asan"), "fa1")));
  EXPECT_EQ(key, dedupe_key(without_build(found("./lib_cpu-asan.so", "asan"), "fa1")));
  EXPECT_NE(key, dedupe_key(without_build(found("fa1", "plain"), "splitk")));
  Reproducer other = found("fa1", "plain");
  other.c.problem.causal = true;
  EXPECT_NE(key, dedupe_key(without_build(other, "fa1")));
}

Reproducer with_layout(TensorId tensor, int64_t batch, int64_t queries) {
  Reproducer r;
  r.kernel = "fa1";
  r.kind = "guard";
  r.c.problem.batch = batch;
  r.c.problem.seq_q = queries;
  r.c.layout[static_cast<size_t>(tensor)].spread = queries;
  return r;
}

TEST(DedupeKey, IsTheSameForAllSizesThatMakeAStrideMatter) {
  const auto key = [](TensorId tensor, int64_t batch, int64_t queries) {
    return dedupe_key(without_build(with_layout(tensor, batch, queries), "fa1"));
  };
  EXPECT_EQ(key(TensorId::kLse, 1, 2), key(TensorId::kLse, 2, 1));
  EXPECT_EQ(key(TensorId::kQ, 1, 2), key(TensorId::kV, 2, 1));
  EXPECT_NE(key(TensorId::kLse, 1, 2), key(TensorId::kV, 1, 2));
  EXPECT_NE(key(TensorId::kLse, 1, 2), key(TensorId::kO, 1, 2));
}

Crash crash_with(const std::string& target, const std::string& kind, int64_t keys, bool causal, bool softcap) {
  Crash crash;
  crash.target = target;
  crash.kind = kind;
  crash.c.problem.seq_k = keys;
  crash.c.problem.causal = causal;
  crash.c.problem.softcap = softcap ? 5.0f : 0.0f;
  return crash;
}

// Ended by SIGKILL in each run.
class Killed : public FakeTarget {
 public:
  RunReply run(Stage, const attn_problem&, const attn_tensors&, const attn_plan&, const attn_env&,
               int) override {
    RunReply reply;
    reply.status = ATTN_FAULT;
    reply.crash = "it died";
    reply.exit_reason = ExitReason::kKilled;
    return reply;
  }
};

TEST(RunAgain, AKillConfirmsAKillAndNoOtherFailure) {
  Crash crash = crash_with("fake", "crash", 4, false, false);
  const auto again = [&] {
    Killed worker;
    return run_again(crash, *find_property("reference"), worker, executor(), "").repeats;
  };
  EXPECT_EQ(again(), Repeats::kNever) << "anyone may have sent it";
  crash.exit_reason = ExitReason::kKilled;
  EXPECT_EQ(again(), Repeats::kAlways);
}

TEST(SeededBug, HasTheKindThatTheBuildsSanitizerReports) {
  EXPECT_EQ(seeded_bug_for("plain").kind, Kind::kWrong);
  EXPECT_EQ(seeded_bug_for("coverage").kind, Kind::kWrong);
  EXPECT_EQ(seeded_bug_for("msan-O0").kind, Kind::kUninitialised);
  for (const BuildKind& build_kind : build_kinds())
    EXPECT_EQ(seeded_bug_for(build_kind.name).kind != Kind::kWrong, build_kind.sanitizer()) << build_kind.name;
}

TEST(SeededBug, HasTheNameOfItsTargetOrItsOldName) {
  EXPECT_TRUE(is_seeded_bug("seeded-bug.cpu.plain"));
  EXPECT_TRUE(is_seeded_bug("canary.cpu.plain"));
  EXPECT_FALSE(is_seeded_bug("kernel.seeded-bug.cpu.plain"));
  EXPECT_FALSE(is_seeded_bug("fa1.cpu.plain"));
}

TEST(ChooseCrash, TakesTheKindThatHadLeastAttentionAndThenTheUnlikest) {
  const std::vector<Crash> crashes = {crash_with("a", "wrong", 64, true, false),
                                      crash_with("a", "wrong", 64, true, true),
                                      crash_with("a", "hang", 64, true, false)};
  EXPECT_EQ(choose_crash(crashes, {}), 0u);
  const std::vector<std::string> like_first = features(crashes[0].c, 64, 64);
  EXPECT_EQ(choose_crash(crashes, {{"a", "wrong", like_first}}), 2u);
  EXPECT_EQ(choose_crash(crashes, {{"a", "wrong", like_first}, {"a", "hang", like_first}}), 1u);
}

class LedgerFile : public ::testing::Test {
 protected:
  LedgerFile() {
    std::string name = (std::filesystem::temp_directory_path() / "ledger-XXXXXX").string();
    dir_ = mkdtemp(name.data());
  }
  ~LedgerFile() override { std::filesystem::remove_all(dir_); }
  std::string write(const std::string& text) {
    std::ofstream(dir_ + "/ledger.json") << text;
    return dir_ + "/ledger.json";
  }
  std::string error_of(const std::string& text) {
    try {
      read_ledger(write(text));
    } catch (const std::runtime_error& e) {
      return e.what();
    }
    return "";
  }
  std::string dir_;
};

TEST_F(LedgerFile, KnowsByKeyByNameAndByFeatures) {
  const Ledger ledger = read_ledger(write(R"({"format": 1, "known": [
    {"mode": "tolerated", "key": "a|b", "reason": "issue 1", "reproducer": "x.attn.json"},
    {"mode": "quarantined", "kernel": "fa1", "features": ["causal", "softcap"], "reason": "issue 2"}]})"));
  ASSERT_NE(tolerated(ledger, "a|b", "n"), nullptr);
  EXPECT_EQ(tolerated(ledger, "a|b", "n")->reason, "issue 1");
  EXPECT_EQ(tolerated(ledger, "a|b", "n")->reproducer, dir_ + "/x.attn.json");
  EXPECT_NE(tolerated(ledger, "other", "a|b"), nullptr);
  EXPECT_EQ(tolerated(ledger, "c", "n"), nullptr);
  Case c;
  c.problem.causal = true;
  EXPECT_EQ(quarantined(ledger, c, {"fa1", "cpu", "plain"}), nullptr);
  c.problem.softcap = 3;
  EXPECT_NE(quarantined(ledger, c, {"fa1", "cpu", "plain"}), nullptr);
  EXPECT_EQ(quarantined(ledger, c, {"splitk", "cpu", "plain"}), nullptr);
}

TEST_F(LedgerFile, SaysWhatIsWrongWithAnEntry) {
  EXPECT_NE(error_of("nonsense").find("is no ledger"), std::string::npos);
  EXPECT_NE(error_of(R"({"format":2,"known":[]})").find("another format"), std::string::npos);
  EXPECT_NE(error_of(R"({"format":1,"known":[{"mode":"tolerated","key":"k"}]})").find("no reason"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"format":1,"known":[{"mode":"muted","key":"k","reason":"r"}]})").find("'muted'"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"format":1,"known":[{"mode":"quarantined","reason":"r"}]})").find("hide everything"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"format":1,"known":[{"mode":"tolerated","kye":"k","reason":"r"}]})").find("'kye'"),
            std::string::npos);
}

TEST_F(LedgerFile, RefusesFieldsOfTheOtherMode) {
  for (const char* field : {"key", "reproducer"}) {
    const std::string error = error_of(R"({"format":1,"known":[{"mode":"quarantined","kernel":"fa1",")" +
                                       std::string(field) + R"(":"zz","reason":"r"}]})");
    EXPECT_NE(error.find(std::string("'") + field + "' is for a tolerated failure"), std::string::npos)
        << error;
  }
  for (const char* field :
       {R"("kernel":"fa1")", R"("backend":"cpu")", R"("lane":"tsan")", R"("features":[])"}) {
    const std::string error = error_of(R"({"format":1,"known":[{"mode":"tolerated","key":"k","reason":"r",)" +
                                       std::string(field) + "}]}");
    EXPECT_NE(error.find("is for a quarantined failure: leave it out"), std::string::npos) << error;
  }
}

TEST_F(LedgerFile, RefusesAFeatureThatNoCaseHas) {
  const std::string error = error_of(
      R"({"format":1,"known":[{"mode":"quarantined","features":["causal","soft cap"],"reason":"r"}]})");
  EXPECT_NE(error.find("entry 1: there is no feature 'soft cap'"), std::string::npos) << error;
  for (const std::string& name : feature_names())
    EXPECT_NE(error.find("'" + name + "'"), std::string::npos) << name;
}

// A feature name that no case has would be useless in a ledger.
TEST(FeatureNames, EachOneOccursInACase) {
  std::set<std::string> met;
  const auto meet = [&](const Case& c) {
    for (const std::string& name : features(c, 64, 64)) met.insert(name);
  };
  GeneratorConfig config;
  config.variants = 2;
  config.splits = true;
  config.features = ATTN_FEATURE_SINK | ATTN_FEATURE_WIDE | ATTN_FEATURE_LATENT | ATTN_FEATURE_ALIBI |
                    ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32 | ATTN_FEATURE_PAGED | ATTN_FEATURE_KV8 |
                    ATTN_FEATURE_KEY_STEP;
  for (uint64_t i = 0; i < 3000; ++i) meet(draw(config, 1, i));
  // A case that is drawn once in thousands.
  Case rare;
  rare.problem.heads_q = rare.problem.heads_kv = 65536;
  rare.problem.seq_k = 32768;
  rare.problem.seq_q = 0;  // no row has to be laid out
  meet(rare);
  Case far;
  far.problem.seq_k = 2;
  far.layout[static_cast<size_t>(TensorId::kK)].spread = 1;
  meet(far);
  // Cases that are drawn only for kernels that declare the feature.
  Case wide;
  wide.problem.dtype = ATTN_F32;
  meet(wide);
  Case merge;
  merge.problem.features = ATTN_FEATURE_MERGE;
  merge.problem.seq_k = 0;
  merge.sides.kind = PatternKind::kNothing;
  meet(merge);
  merge.problem.features |= ATTN_FEATURE_IN_PLACE;
  meet(merge);
  Case backward;
  backward.problem.features = ATTN_FEATURE_BACKWARD;
  backward.dout_repeated.query = true;
  meet(backward);
  backward.problem.features |= ATTN_FEATURE_DLSE | ATTN_FEATURE_DBIAS | ATTN_FEATURE_DSINK;
  meet(backward);
  Case append;
  append.problem.features = ATTN_FEATURE_APPEND;
  append.problem.seq_q = 4, append.problem.seq_k = 3;
  append.problem.key_lengths = {0};
  append.problem.paging = Paging{.size = 1};
  meet(append);
  Case copy;
  copy.problem.features = ATTN_FEATURE_COPY_PAGES;
  copy.problem.seq_k = 0;
  copy.problem.paging = Paging{.spare = 2};
  copy.copies = {{0, 1}};
  meet(copy);
  Case selected;
  selected.problem.features = ATTN_FEATURE_SELECTED;
  selected.problem.seq_k = 33;
  selected.problem.selection = {.block = 16, .kind = SelectionKind::kRepeated, .holes = 1, .empty = 2};
  meet(selected);
  selected.problem.selection.block = 1;
  meet(selected);
  selected.problem.features = ATTN_FEATURE_NSA_SELECT;
  selected.problem.selection = {.select = 2, .first = 1};
  meet(selected);
  Case compressed;
  compressed.problem.features = ATTN_FEATURE_NSA_COMPRESS;
  compressed.problem.seq_k = 9, compressed.problem.key_step = 4, compressed.problem.key_offset = 1;
  meet(compressed);
  compressed.problem.key_offset = 7;
  meet(compressed);
  const std::vector<std::string> names = feature_names();
  EXPECT_EQ(met, std::set<std::string>(names.begin(), names.end()));
  EXPECT_EQ(met.size(), names.size());
}

TEST(IssueText, SaysAllThatAReaderNeeds) {
  Finding f;
  f.name = "fa1-wrong-123456";
  f.kind = "wrong";
  f.property = "gqa";
  f.message = "o is 1, must be 2";
  f.minimal = "B=1 S=1/65";
  f.needs = {{.part = "seq_k", .relation = Relation::kAtLeast, .value = 65, .text = "seq_k >= 65"}};
  f.indifferent = {"dtype", "batch"};
  f.failed = 4, f.runs = 10;
  f.repeats = Repeats::kSometimes;
  Reproducer r = found("fa1", "plain");
  r.build_hash = "abcdef";
  CampaignHeader header;
  header.sessions.resize(1);
  header.sessions[0].machine.cpu = "a CPU | with a bar";
  TargetRecord target;
  target.kernel = "fa1";
  const std::string text = issue_text(f, r, {header, target, "t.jsonl"});
  for (const char* part :
       {"fa1: wrong (gqa)", "o is 1, must be 2", "4 of 10 runs", "B=1 S=1/65", "- needs seq_k >= 65",
        "Does not matter: dtype, batch.", "attnfuzz replay fa1-wrong-123456.attn.json", "abcdef",
        "a CPU \\| with a bar", "t.jsonl"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

// Sessions of one folder.
class SessionFolder : public LedgerFile {
 protected:
  SessionFolder() {
    options_.dir = dir_;
    options_.seconds = 100;
    target_.record.name = "fa1.cpu.plain";
    target_.record.build = "old";
    target_.folder = "fa1";
  }
  CampaignOptions options_;
  CampaignTarget target_;
};

TEST_F(SessionFolder, ASessionAfterABrokenOneRunsForItsRemainingTime) {
  begin_session(options_, {target_});
  std::filesystem::create_directories(shard_dir(dir_, 0));
  SeriesLine line;
  line.t = 30;
  std::ofstream(shard_dir(dir_, 0) + "/series.jsonl") << line_of(line) << "\n";
  CampaignHeader header = begin_session(options_, {target_});
  ASSERT_EQ(header.sessions.size(), 2u);
  EXPECT_EQ(header.sessions[0].ended, "killed");
  EXPECT_EQ(header.sessions[1].from, 30);
  EXPECT_EQ(header.sessions[1].asked, 70);
  // After a session that ran to its end, the next runs for the whole time.
  header.sessions[1].seconds = 70;
  header.sessions[1].ended = "time";
  write_header(dir_, header);
  header = begin_session(options_, {target_});
  EXPECT_EQ(header.sessions[2].from, 100);
  EXPECT_EQ(header.sessions[2].asked, 100);
}

TEST_F(SessionFolder, NotesAnotherBuildAndRefusesAnotherSeed) {
  begin_session(options_, {target_});
  target_.record.build = "new";
  const CampaignHeader header = begin_session(options_, {target_});
  ASSERT_FALSE(header.sessions[1].notes.empty());
  EXPECT_NE(header.sessions[1].notes.back().find("built anew: old -> new"), std::string::npos);
  EXPECT_EQ(header.targets.at(0).build, "new");
  options_.seed = 2;
  EXPECT_THROW(begin_session(options_, {target_}), std::runtime_error);
}

TEST_F(SessionFolder, IsHeldByOneSession) {
  const FolderLock lock(dir_);
  EXPECT_THROW(FolderLock{dir_}, std::runtime_error);
}

TEST_F(SessionFolder, SaysWhoHoldsItAndWhoDid) {
  EXPECT_FALSE(holder_of(dir_).works);
  const std::string pid = std::to_string(::getpid());
  {
    const FolderLock lock(dir_);
    EXPECT_TRUE(holder_of(dir_).works);
    EXPECT_EQ(holder_of(dir_).pid, pid);
    EXPECT_FALSE(holder_of(dir_).host.empty());
  }
  EXPECT_FALSE(holder_of(dir_).works);
  EXPECT_EQ(holder_of(dir_).pid, pid);
}

}  // namespace
}  // namespace attnfuzz
