// The page of a fabricated night: whole, well-formed, and harmless whatever the
// folder holds. How it looks is for tests/e2e/report_browser.py and for eyes.
#include "fuzz/report/report.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "fuzz/report/chart.h"
#include "fuzz/report/heat_map.h"
#include "fuzz/report/html.h"
#include "tests/fuzz/report/night.h"
#include "tests/fuzz/report/xml.h"

namespace attnfuzz {
namespace {

class ReportOfANight : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::TempDir() + "night-" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string page() {
    report::Report report = report::read_report(dir_);
    problems_ = report.problems;
    for (report::FindingEntry& entry : report.findings) {
      if (entry.reproducer)
        entry.picture = report::picture_of(*entry.reproducer, nullptr, {}, "No kernel here.");
    }
    return report::report_html(report, "2026-03-02T08:00:00Z");
  }
  void put(const std::string& name, const std::string& text) { std::ofstream(dir_ + "/" + name) << text; }

  std::string dir_;
  std::vector<std::string> problems_;
};

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST_F(ReportOfANight, HasAllThatWasAskedFor) {
  make_night(dir_);
  const std::string html = page();
  EXPECT_EQ(malformed(html), "");
  EXPECT_TRUE(problems_.empty());
  for (const char* section : {"findings", "time", "lengths", "audit", "machine"})
    EXPECT_EQ(count(html, std::string("<section id=\"") + section + "\">"), 1) << section;
  for (const char* words : {"2 new findings in 8 h 00 min",
                            "The canary was found",
                            "attnfuzz replay",
                            "Smallest case",
                            "<dd>seq_k &gt;= 65, mask: only the first key</dd>",
                            "known failures seen",
                            "Cases a second",
                            "Rejected and vacuous",
                            "Corpus",
                            "Signals",
                            "Coverage",
                            "Error over rows and keys",
                            "fa1.cpu.plain",
                            "splitk.cpu.plain",
                            "dim_qk 257 is not supported",
                            "checked nothing",
                            "clang version 19.1.7",
                            "node-1",
                            "was built anew",
                            "failed once and in no later run",
                            "GPU 0: 1 job, 62 % of the time inside kernels"})
    EXPECT_NE(html.find(words), html.npos) << words;
  EXPECT_EQ(count(html, "<article "), 3);
}

TEST_F(ReportOfANight, LoadsNothing) {
  make_night(dir_);
  const std::string html = page();
  for (const char* what :
       {"<script", "src=", "url(", "@import", "<iframe", "<object", "<img", "http-equiv=\"refresh"})
    EXPECT_EQ(html.find(what), html.npos) << what;
  for (size_t at = html.find("href=\""); at != html.npos; at = html.find("href=\"", at + 1)) {
    const std::string link = html.substr(at + 6, 6);
    EXPECT_TRUE(link[0] == '#' || link.starts_with("data:,")) << link;
  }
}

TEST_F(ReportOfANight, TextOfFilesStaysText) {
  make_night(dir_, {.hostile = true});
  const std::string html = page();
  EXPECT_EQ(malformed(html), "");
  EXPECT_EQ(html.find("<script"), html.npos);
  EXPECT_EQ(html.find("alert(\""), html.npos);
  EXPECT_NE(html.find("&lt;script&gt;"), html.npos) << "the markup must be there, as text";
}

TEST_F(ReportOfANight, SaysWhenNothingWasFound) {
  make_night(dir_, {.green = true});
  const std::string html = page();
  EXPECT_EQ(malformed(html), "");
  EXPECT_NE(html.find("Nothing found in 8 h 00 min"), html.npos);
  EXPECT_NE(html.find("every case that was judged held"), html.npos);
}

TEST_F(ReportOfANight, IsNotGreenWhileFailuresWait) {
  make_night(dir_, {.green = true});
  write_crash(dir_, {.id = "waits", .target = "fa1.cpu.plain", .property = "reference"}, {});
  const std::string html = page();
  EXPECT_EQ(malformed(html), "");
  EXPECT_EQ(html.find("Nothing found"), html.npos);
  EXPECT_EQ(html.find("every case that was judged held"), html.npos);
  EXPECT_NE(html.find("1 failing case, not looked at yet"), html.npos);
}

TEST_F(ReportOfANight, SaysThatTheHarnessIsBroken) {
  make_night(dir_, {.green = true, .canary = false});
  EXPECT_NE(page().find("The harness is broken"), std::string::npos);
  write_canaries(dir_, {});
  EXPECT_NE(page().find("No canary was run"), std::string::npos);
}

TEST_F(ReportOfANight, OfACampaignThatHasJustBegun) {
  std::filesystem::create_directories(dir_);
  write_header(dir_, {});
  const std::string html = page();
  EXPECT_EQ(malformed(html), "");
  EXPECT_NE(html.find("Nothing has been run yet"), html.npos);
}

TEST_F(ReportOfANight, NamesWhatCannotBeRead) {
  make_night(dir_);
  put("findings.json", "{\"findings\": [");
  put("shards/1/stats.json", "[]");
  put("shards/2/series.jsonl", "nonsense\n{\"t\": 5");
  const std::string html = page();
  EXPECT_EQ(malformed(html), "");
  ASSERT_EQ(problems_.size(), 2u);
  EXPECT_NE(html.find("findings.json is not JSON"), html.npos);
  EXPECT_NE(html.find("shards/1/stats.json cannot be understood"), html.npos);
  EXPECT_NE(html.find("cases judged"), html.npos) << "the rest is shown";
}

TEST_F(ReportOfANight, AFindingWhoseFileIsGoneOrAlien) {
  make_night(dir_);
  const auto names = read_findings(dir_).findings;
  std::filesystem::remove(dir_ + "/findings/" + names[0].name + ".attn.json");
  put("findings/" + names[1].name + ".attn.json", "{\"format\": 99}");
  FindingsFile file = read_findings(dir_);
  file.findings.push_back(names[2]);
  file.findings.back().name = "../../../etc/passwd";
  write_findings(dir_, file);
  const std::string html = page();
  EXPECT_EQ(malformed(html), "");
  EXPECT_EQ(problems_.size(), 3u);
  EXPECT_EQ(count(html, "<article "), 4) << "each is still told of";
  EXPECT_NE(html.find("no file&apos;s name") != html.npos ? 0 : html.find("which is no file's name"),
            html.npos);
}

TEST_F(ReportOfANight, NoCampaignOrAnothersIsRefused) {
  std::filesystem::create_directories(dir_);
  EXPECT_THROW(report::read_report(dir_), std::runtime_error);
  put("campaign.json", "{\"format\": 7}");
  try {
    report::read_report(dir_);
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("format 7"), std::string::npos) << e.what();
  }
}

TEST(Html, EscapesWhatMarkupOrBytesMayDo) {
  EXPECT_EQ(report::escape("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
  EXPECT_EQ(report::escape("\xc3\xa9\xe2\x82\xac"), "\xc3\xa9\xe2\x82\xac");
  for (const char* bad : {"\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\x01"})
    EXPECT_EQ(report::escape(bad).substr(0, 3), "\xef\xbf\xbd") << bad;
}

TEST(Html, Numbers) {
  EXPECT_EQ(report::duration(7500), "2 h 05 min");
  EXPECT_EQ(report::duration(59.6), "60 s");
  EXPECT_EQ(report::compact(12345), "12.3k");
  EXPECT_EQ(report::percent(1, 2000), "&lt; 0.1 %");
  EXPECT_EQ(report::percent(0, 0), "-");
}

TEST(Chart, RoundSteps) {
  EXPECT_EQ(report::round_steps(9, 3), (std::vector<double>{0, 5, 10}));
  EXPECT_EQ(report::round_steps(1, 3).back(), 1.0);
  EXPECT_EQ(report::round_steps(730, 3), (std::vector<double>{0, 250, 500, 750}));
}

TEST(Chart, OneOutOfRangePointStaysInside) {
  report::Chart chart;
  chart.end = 10;
  chart.curves = {{"a", {{0, 1}, {50, 2}}, true}};
  const std::string html = report::chart(chart);
  EXPECT_EQ(malformed("<!DOCTYPE html>\n" + html), "");
  EXPECT_EQ(html.find("nan"), html.npos);
}

TEST(HeatMap, LongStretchesThatNobodyTriedAreOnePlace) {
  const std::string html = report::heat_map("a", {{{1, 1}, {5, .5}}, {{3, 17}, {1, .9}}});
  EXPECT_EQ(malformed("<!DOCTYPE html>\n" + html), "");
  EXPECT_EQ(count(html, "<rect "), 2);
  EXPECT_EQ(count(html, ">...<"), 1) << "of keys; two buckets of queries are shown";
  EXPECT_NE(html.find("seq_q up to 4, seq_k up to 64k: worst 0.9 in 1 cases"), html.npos);
}

TEST(HeatMap, BucketsOfLengths) {
  EXPECT_EQ(report::bucket_name(heat_bucket(0)), "0");
  EXPECT_EQ(report::bucket_name(heat_bucket(1)), "1");
  EXPECT_EQ(report::bucket_name(heat_bucket(65)), "128");
  EXPECT_EQ(report::bucket_name(heat_bucket(70000)), "128k");
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
  reference.dim_v = 1;
  reference.o = {1, 1, 1, 1};
  reference.o_bound = {0.1, 0.1, 0.1, 0.1};
  reference.o_nan.assign(4, 0);
  reference.state.assign(4, RowState::kBounded);
  reference.overflow = 65520;
  const std::vector<float> o = {1, 1.05f, 1.5f, 1};
  const report::CasePicture picture = report::draw_case(c, plan, &reference, &o, nullptr);
  ASSERT_EQ(picture.error.size(), 4u);
  EXPECT_EQ(picture.error[0], 0);
  EXPECT_NEAR(picture.error[1], 0.5, 1e-5);
  EXPECT_NEAR(picture.error[2], 5, 1e-5);
  EXPECT_EQ(picture.columns.starts.back(), 70);
  const std::string html = report::svg(picture);
  EXPECT_EQ(malformed("<!DOCTYPE html>\n" + html), "");
  EXPECT_NE(html.find("a KV tile begins at key 64"), html.npos);
  EXPECT_NE(html.find("error/bound 5"), html.npos);
}

}  // namespace
}  // namespace attnfuzz
