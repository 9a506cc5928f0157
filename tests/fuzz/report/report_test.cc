// Tests the report of a fabricated campaign: its data has everything that the folder
// holds, and no text of the folder becomes markup of the page.
// tests/e2e/campaign/report_browser.py checks the look of the page.
#include "fuzz/report/report.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "tests/fuzz/report/night.h"

namespace attnfuzz {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ReportOfANight : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::TempDir() + "night-" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  Json json() {
    report_ = report::read_report(dir_);
    return report::report_json(report_, "2026-03-02T08:00:00Z");
  }
  void put(const std::string& name, const std::string& text) { std::ofstream(dir_ + "/" + name) << text; }

  std::string dir_;
  report::Report report_;
};

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// The content of the element that holds the data, up to the end that a browser finds.
std::string data_of(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const size_t at = page.find(begin) + begin.size();
  return page.substr(at, page.find("</script", at) - at);
}

TEST_F(ReportOfANight, HasEverythingInTheFolder) {
  make_night(dir_);
  const Json j = json();
  EXPECT_EQ(j["problems"], Json::array());
  const Json s = j["summary"];
  EXPECT_EQ(s["standing"], "found");
  EXPECT_EQ(s["findings"], 2);
  EXPECT_EQ(s["known"], 1);
  EXPECT_EQ(s["never_again"], 1);
  EXPECT_EQ(s["waiting"], 0);
  EXPECT_EQ(s["corpus"], 20);
  EXPECT_EQ(s["running"], false);
  EXPECT_EQ(s["cases"], 18160058);
  EXPECT_EQ(j["end"], 8 * 3600);
  ASSERT_EQ(j["findings"].size(), 3u);
  const Json f = j["findings"][0];
  EXPECT_EQ(f["kind"], "non-finite");
  EXPECT_EQ(f["needs"][0]["text"], "seq_k >= 65");
  EXPECT_THAT(f["replay"].get<std::string>(), HasSubstr("attnfuzz replay " + dir_ + "/findings/"));
  EXPECT_THAT(f["reproducer"].get<std::string>(), HasSubstr("\"seq_k\": 65"));
  EXPECT_EQ(f["picture"]["error"].back().dump(), "null") << "infinite";
  EXPECT_EQ(f["picture"]["columns"]["starts"].back(), 65);
  EXPECT_EQ(j["findings"][2]["tolerated"], "atomics: the order of sums is not promised");
  EXPECT_THAT(j["findings"][2]["picture"]["why"].get<std::string>(), HasSubstr("none was drawn"));
  EXPECT_EQ(j["campaign"]["targets"][0]["compiler"], "clang version 19.1.7");
  EXPECT_EQ(j["campaign"]["sessions"][1]["machine"]["host"], "node-1");
  EXPECT_EQ(j["targets"]["fa1.cpu.plain"]["rejections"]["reference: dim_qk 257 is not supported"], 1200);
  const Json target = j["targets"]["fa1.cpu.plain"];
  EXPECT_EQ(target["coverage"]["cases"], 1250000);
  EXPECT_EQ(target["coverage"]["pairs"]["met"], 121000);
  EXPECT_EQ(target["coverage"]["classes_missing"], Json::array({"seq_q 257"}));
  EXPECT_FALSE(j["targets"]["splitk.cpu.plain"].contains("coverage")) << "none was measured";
  EXPECT_GT(target["ways"]["wgmma"]["cases"], 0);
  EXPECT_EQ(j["canaries"].size(), 2u);
  ASSERT_EQ(j["newest"].size(), 12u);
  EXPECT_EQ(j["newest"][0]["edges"], 11) << "how many, not which";
}

// One job of three is on a GPU; the sessions lasted 40 and 60 % of the night.
TEST_F(ReportOfANight, EachGpuHasItsRateAndHowBusyItWas) {
  make_night(dir_);
  const Json j = json();
  ASSERT_EQ(j["gpus"].size(), 1u);
  const Json gpu = j["gpus"][0];
  EXPECT_EQ(gpu["gpu"], 0);
  EXPECT_EQ(gpu["jobs"], 1);
  EXPECT_EQ(gpu["cases"], j["shards"][2]["last"]["cases"]);
  EXPECT_NEAR(gpu["rate"].get<double>(), gpu["cases"].get<double>() / (8 * 3600), 0.01);
  EXPECT_NEAR(gpu["busy"].get<double>(), 0.4 * 0.5 + 0.6 * 0.9, 1e-9);
  EXPECT_THAT(report::report_page(j), HasSubstr("cases a second"));
}

// Curves need few points, and the page of a week with many jobs must stay small.
TEST_F(ReportOfANight, SeriesAreThinnedAndEndWhereTheyEnd) {
  make_night(dir_);
  const Json j = json();
  ASSERT_EQ(j["shards"].size(), 3u);
  for (size_t n = 0; n < 3; ++n) {
    const std::vector<SeriesLine> all = read_series(dir_, static_cast<int>(n));
    const Json series = j["shards"][n]["series"];
    EXPECT_LT(series.size(), all.size());
    EXPECT_GT(series.size(), 75u);
    EXPECT_EQ(series.back()["t"], all.back().t);
    EXPECT_EQ(j["shards"][n]["last"]["cases"], all.back().cases);
  }
}

TEST_F(ReportOfANight, TextOfFilesStaysText) {
  make_night(dir_, {.hostile = true});
  const Json j = json();
  const std::string page = report::report_page(j), data = data_of(page);
  EXPECT_EQ(count(page, "<script"), 2u) << "the data, and the page's own";
  EXPECT_EQ(data.find('<'), data.npos);
  EXPECT_EQ(Json::parse(data).flatten().size(), Json::parse(j.dump()).flatten().size()) << "it is all there";
  EXPECT_EQ(Json::parse(data)["summary"], Json::parse(j.dump())["summary"]);
  EXPECT_THAT(data, HasSubstr("\\u003c/style>\\u003cscript>alert"));
}

TEST_F(ReportOfANight, ListsWarningsApartFromFindings) {
  make_night(dir_, {.hostile = true});
  Reproducer r;
  r.kernel = "fa1";
  r.property = "reference";
  r.kind = kWarningKind;
  r.message = "<b>O lies nearer to 0</b>";
  write_warning(dir_, "fa1.cpu.plain", "bias", r);
  EXPECT_TRUE(has_warning(dir_, "fa1.cpu.plain", "bias"));
  EXPECT_FALSE(has_warning(dir_, "fa1.cpu.plain", "lse"));
  const Json j = json();
  EXPECT_EQ(j["summary"]["suspicious"], 4);
  EXPECT_EQ(j["summary"]["findings"], 2);
  ASSERT_EQ(j["suspects"].size(), 1u);
  EXPECT_EQ(j["suspects"][0]["message"], r.message);
  EXPECT_THAT(j["suspects"][0]["replay"].get<std::string>(),
              HasSubstr("suspicious/fa1.cpu.plain-bias.attn.json"));
  EXPECT_EQ(data_of(report::report_page(j)).find('<'), std::string::npos);
  put("suspicious/other.attn.json", "{");
  EXPECT_EQ(json()["problems"].size(), 1u);
}

// The page loads nothing, its policy forbids loading, and its script has no way to turn text into markup.
TEST_F(ReportOfANight, ThePageLoadsNothing) {
  make_night(dir_);
  const std::string page = report::report_page(json());
  EXPECT_THAT(page, HasSubstr("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-"));
  for (const char* what :
       {"src=", "url(", "@import", "<iframe", "<object", "<img", "http-equiv=\"refresh", "innerHTML",
        "outerHTML", "insertAdjacent", "document.write", "eval(", "fetch(", "{{"})
    EXPECT_THAT(page, Not(HasSubstr(what)));
}

TEST_F(ReportOfANight, IsGreenIfNothingWasFound) {
  make_night(dir_, {.green = true});
  EXPECT_EQ(json()["summary"]["standing"], "held");
}

TEST_F(ReportOfANight, IsNotGreenWhileFailuresWait) {
  make_night(dir_, {.green = true});
  write_crash(dir_, {.id = "seeded", .target = "seeded-bug.cpu.plain", .property = "reference"}, {});
  write_crash(dir_, {.id = "canary", .target = "canary.cpu.plain", .property = "reference"}, {});  // its old name
  EXPECT_EQ(json()["summary"]["waiting"], 0) << "a seeded bug's";
  write_crash(dir_, {.id = "waits", .target = "fa1.cpu.plain", .property = "reference"}, {});
  const Json j = json();
  EXPECT_EQ(j["summary"]["standing"], "found");
  EXPECT_EQ(j["summary"]["waiting"], 1);
}

TEST_F(ReportOfANight, IsNotGreenIfACaseFailedOnce) {
  make_night(dir_, {.green = true});
  FindingsFile findings;
  findings.never_again.resize(1);
  findings.never_again[0].name = "once";
  write_findings(dir_, findings);
  EXPECT_EQ(json()["summary"]["standing"], "found");
  findings.never_again[0].tolerated = "the machine was out of memory";
  write_findings(dir_, findings);
  EXPECT_EQ(json()["summary"]["standing"], "held");
}

TEST_F(ReportOfANight, IsNotGreenWithoutItsSeededBug) {
  make_night(dir_, {.green = true, .seeded_bug = false});
  EXPECT_EQ(json()["summary"]["standing"], "found");
  CampaignHeader header = *read_header(dir_);
  header.sessions[1].ended = "";
  write_header(dir_, header);
  EXPECT_EQ(json()["summary"]["standing"], "held") << "it may still be found";
}

TEST_F(ReportOfANight, IsNotGreenWhereTheDiskWasFull) {
  make_night(dir_, {.green = true});
  CampaignHeader header = *read_header(dir_);
  header.sessions.back().ended = kDiskFull;
  write_header(dir_, header);
  EXPECT_EQ(json()["summary"]["standing"], "unknown");
}

TEST_F(ReportOfANight, IsNotGreenWhereANamedPropertyJudgedNothing) {
  make_night(dir_, {.green = true});
  CampaignHeader header = *read_header(dir_);
  for (TargetRecord& target : header.targets) target.properties = {"reference"};
  write_header(dir_, header);
  EXPECT_EQ(json()["summary"]["standing"], "held");
  for (TargetRecord& target : header.targets) target.properties = {"reference", "bit_exact"};
  write_header(dir_, header);
  EXPECT_EQ(json()["summary"]["standing"], "unknown");
  EXPECT_THAT(json()["not_judged"][0].get<std::string>(), HasSubstr("nothing was judged by bit_exact"));
}

TEST_F(ReportOfANight, IsNotGreenWhereTheListOfFindingsWasEmptied) {
  make_night(dir_, {.green = true});
  EXPECT_EQ(json()["summary"]["standing"], "held");
  std::ofstream(dir_ + "/findings/fa1-wrong-123456.attn.json") << "{}\n";
  EXPECT_EQ(json()["summary"]["standing"], "unknown");
}

TEST_F(ReportOfANight, IsNotGreenIfTooLittleWasJudged) {
  make_night(dir_, {.green = true});
  ShardStats stats = read_stats(dir_, 0);
  const auto told = [&](const char* what) {
    const Json j = json();
    EXPECT_EQ(j["summary"]["standing"], "unknown");
    ASSERT_EQ(j["not_judged"].size(), 1u);
    EXPECT_THAT(j["not_judged"][0].get<std::string>(), HasSubstr(what));
  };
  Classification& drawn = stats.targets["fa1.cpu.plain"].features;
  for (uint64_t* counted : {&drawn.uninformative, &drawn.rejected}) {
    const uint64_t before = *counted;
    *counted = uint64_t{1} << 50;
    write_stats(dir_, 0, stats);
    told("most cases of fa1.cpu.plain were not judged");
    *counted = before;
  }
  stats.targets["fa1.cpu.plain"].unconstrained_rows += uint64_t{1} << 50;
  write_stats(dir_, 0, stats);
  told("no result of fa1.cpu.plain was compared");
  stats.targets["fa1.cpu.plain"].unconstrained_rows -= uint64_t{1} << 50;
  stats.targets["fa1.cpu.plain"].oracle = {.device = "a GPU", .left = {{"small", 7}}};
  write_stats(dir_, 0, stats);
  told("fa1.cpu.plain: the oracle on the GPU judged nothing");
  stats.targets["fa1.cpu.plain"].oracle.fast = 1;
  write_stats(dir_, 0, stats);
  EXPECT_EQ(json()["summary"]["standing"], "held");
  CampaignHeader header = *read_header(dir_);
  header.targets.emplace_back().name = "idle.cpu.plain";
  write_header(dir_, header);
  told("idle.cpu.plain: no case was drawn");
  header.sessions.back().ended = "interrupted";
  write_header(dir_, header);
  EXPECT_EQ(json()["summary"]["standing"], "held") << "the session goes on";
}

TEST_F(ReportOfANight, IsNotGreenWithoutItsFindings) {
  make_night(dir_, {.green = true});
  std::filesystem::remove(dir_ + "/findings.json");
  const Json j = json();
  EXPECT_EQ(j["summary"]["standing"], "unknown");
  ASSERT_EQ(j["problems"].size(), 1u);
  EXPECT_THAT(j["problems"][0].get<std::string>(), HasSubstr("findings.json is missing"));
}

TEST_F(ReportOfANight, CanBeOfACampaignThatHasJustBegun) {
  std::filesystem::create_directories(dir_);
  write_findings(dir_, {});
  write_header(dir_, {});
  const Json j = json();
  EXPECT_EQ(j["summary"]["cases"], 0);
  EXPECT_EQ(j["problems"], Json::array());
}

TEST_F(ReportOfANight, NamesUnreadableFiles) {
  make_night(dir_);
  put("findings.json", "{\"findings\": [");
  put("shards/1/stats.json", "[]");
  put("shards/2/series.jsonl", "nonsense\n{\"t\": 5");
  const Json j = json();
  ASSERT_EQ(report_.problems.size(), 2u);
  EXPECT_THAT(report_.problems[0], HasSubstr("shards/1/stats.json cannot be read"));
  EXPECT_THAT(report_.problems[1], HasSubstr("findings.json: not JSON"));
  EXPECT_GT(j["summary"]["cases"], 1000000) << "the rest is shown";
  EXPECT_EQ(j["summary"]["standing"], "unknown");
}

TEST_F(ReportOfANight, ListsAFindingWhoseFileIsGoneOrAlien) {
  make_night(dir_);
  const auto names = read_findings(dir_).findings;
  std::filesystem::remove(dir_ + "/findings/" + names[0].name + ".attn.json");
  put("findings/" + names[1].name + ".attn.json", "{\"format\": 99}");
  const Json j = json();
  EXPECT_EQ(report_.problems.size(), 2u);
  EXPECT_EQ(j["findings"].size(), 3u) << "each finding is still listed";
}

TEST_F(ReportOfANight, AListThatNamesNoFileIsNotBelieved) {
  make_night(dir_);
  FindingsFile file = read_findings(dir_);
  file.findings[1].name = "../../../etc/passwd";
  write_findings(dir_, file);
  EXPECT_EQ(json()["summary"]["standing"], "unknown");
  EXPECT_THAT(report_.problems, testing::Contains(HasSubstr("which is no file's name")));
}

TEST_F(ReportOfANight, ABadPictureIsNamedAndDrawnAgain) {
  make_night(dir_);
  const std::string name = read_findings(dir_).findings[0].name, file = "findings/" + name + ".picture.json";
  for (
      const char* bad :
      {"", "[]", "{\"batch\": 0}",
       R"({"batch":0,"head":0,"rows":{"starts":[0,9],"border":[],"tile":1},"columns":{"starts":[0,9],"border":[7],"tile":1},"seen":[100],"error":[],"why":"","said":[]})",
       R"({"batch":0,"head":0,"rows":{"starts":[0,9],"border":[],"tile":1},"columns":{"starts":[0,9],"border":[],"tile":1},"seen":[100,1],"error":[],"why":"","said":[]})"}) {
    put(file, bad);
    const Json j = json();
    ASSERT_EQ(report_.problems.size(), 1u) << bad;
    EXPECT_THAT(report_.problems[0], HasSubstr("is no picture of a case"));
    EXPECT_EQ(j["findings"][0]["picture"]["columns"]["starts"].back(), 65);
  }
}

TEST_F(ReportOfANight, AFolderWithoutACampaignIsRefused) {
  std::filesystem::create_directories(dir_);
  EXPECT_THROW(report::read_report(dir_), std::runtime_error);
  put("campaign.json", "{\"format\": 7}");
  try {
    report::read_report(dir_);
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_THAT(e.what(), HasSubstr("format 7"));
  }
}

TEST(CasePicture, ErrorsLieInTheirRows) {
  Case c;
  c.problem.seq_q = 4;
  c.problem.seq_k = 70;
  c.problem.causal = true;
  attn_plan plan = {};
  plan.tile_q = plan.tile_k = 64;
  Reference reference;
  reference.rows = 4;
  reference.outputs.push_back({.tensor = TensorId::kO,
                               .columns = 1,
                               .value = {1, 1, 1, 1},
                               .bound = {0.1, 0.1, 0.1, 0.1},
                               .rule = {0, 0, 0, 0},
                               .overflow = 65520});
  reference.state.assign(4, RowState::kBounded);
  Outputs outputs;
  outputs[TensorId::kO] = {1, 1.05f, 1.5f, 1};
  const CasePicture picture = draw_case(c, plan, &reference, &outputs);
  ASSERT_EQ(picture.error.size(), 4u);
  EXPECT_EQ(picture.error[0], 0);
  EXPECT_NEAR(picture.error[1], 0.5, 1e-5);
  EXPECT_NEAR(picture.error[2], 5, 1e-5);
  EXPECT_EQ(picture.columns.starts.back(), 70);
}

TEST(CasePicture, IsReadAsItWasWritten) {
  Case c;
  c.problem.seq_q = 130;
  c.problem.seq_k = 70;
  c.problem.causal = true;
  CasePicture picture = picture_without_error(c, "why \"<b>\"");
  picture.b = 1;
  picture.h = 2;
  picture.error.assign(static_cast<size_t>(picture.rows.cells()), 0.25);
  picture.error[0] = std::numeric_limits<double>::infinity();
  picture.said = {"a", "\xff"};
  const std::string path = testing::TempDir() + "a.picture.json";
  write_picture(path, picture);
  const CasePicture read = read_picture(path);
  EXPECT_EQ(read.error, picture.error);
  EXPECT_EQ(read.rows.starts, picture.rows.starts);
  EXPECT_EQ(picture_json(read)["rows"], picture_json(picture)["rows"]);
  EXPECT_EQ(picture_json(read)["seen"], picture_json(picture)["seen"]);
  EXPECT_EQ(read.why, picture.why);
  EXPECT_EQ(read.b, 1);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace attnfuzz
