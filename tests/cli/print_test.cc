// Tests the text of a check: the lines of a failure have one order and are at most 25; a kernel has one line.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "cli/print/failure.h"
#include "cli/print/summary.h"
#include "cli/print/verdict.h"
#include "properties/case/words.h"

namespace attnfuzz {
namespace {

std::vector<std::string> lines_in(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

Failure some_failure() {
  Failure failure;
  failure.index = 13;
  failure.property = find_property("reference");
  Verdict& v = failure.verdict;
  v.outcome = Outcome::kFail;
  v.kind = Kind::kNonFinite;
  v.property = "reference";
  v.message = "o(b=0,h=0,q=0,d=0) is nan, must be 0 +- 3e-08";
  v.where = Where{.bad = 1, .of = 1};
  return failure;
}

Filed some_filed(const Failure& failure) {
  Filed filed = {.reproducer = "found/a.attn.json"};
  filed.reduction.emplace();
  filed.reduction->minimal = failure.c;
  filed.reduction->verdict = failure.verdict;
  filed.reduction->needs = {{.part = "seq_k", .text = "seq_k >= 65"}};
  filed.reduction->evaluations = 1587;
  filed.reduction->complete = true;
  filed.reduction->indifferent = {"batch", "dtype"};
  filed.guess.likely = FaultClass::kState;
  filed.guess.why = "right in a fresh worker";
  filed.replay = "attnfuzz replay found/a.attn.json --kernel mine";
  return filed;
}

// The index of the first line that begins with the words.
size_t line_of(const std::vector<std::string>& lines, const std::string& words) {
  const auto at = std::ranges::find_if(lines, [&](const std::string& line) { return line.starts_with(words); });
  EXPECT_NE(at, lines.end()) << "no line begins with '" << words << "'";
  return static_cast<size_t>(at - lines.begin());
}

TEST(FailureBlock, SaysWhatIsWrongTheCaseItsNeedsWhereTheCauseAndHowToReplay) {
  const Failure failure = some_failure();
  const Filed filed = some_filed(failure);
  for (const bool all : {false, true}) {
    const auto lines = lines_in(failure_block(sections_of(failure, filed, 7, all), all, false));
    EXPECT_EQ(lines.front(), "FAIL (reference, non-finite): o(b=0,h=0,q=0,d=0) is nan, must be 0 +- 3e-08");
    EXPECT_EQ(lines[1], "  " + describe(failure.c));
    EXPECT_EQ(lines[2], "  needs seq_k >= 65");
    const size_t found = line_of(lines, "  found in case 13 of seed 7, reduced in 1587 evaluations");
    const size_t likely = line_of(lines, "  likely ");
    EXPECT_LT(2u, found);
    EXPECT_LT(found, line_of(lines, "  first at o(b=0, h=0, q=0, d=0)"));
    EXPECT_LT(found, likely);
    EXPECT_LT(likely, lines.size() - 1);
    EXPECT_EQ(lines.back(), "replay: attnfuzz replay found/a.attn.json --kernel mine");
  }
}

// No single number of a wrong list is wrong, so none is printed as expected.
TEST(FailureBlock, AWrongListHasNoExpectedNumber) {
  Verdict v;
  v.outcome = Outcome::kFail;
  v.kind = Kind::kWrong;
  const double none = std::nan("");
  v.where =
      Where{.tensor = TensorId::kChosen, .h = 1, .q = 3, .got = none, .expected = none, .bad = 2, .of = 8};
  EXPECT_EQ(verdict_details(v).front(), "first at chosen(b=0, h=1, q=3), query tile 0; 2 of 8 rows are wrong");
  v.where->got = 4, v.where->expected = 5;
  EXPECT_EQ(
      verdict_details(v).front(),
      "first at chosen(b=0, h=1, q=3, d=0), query tile 0: got 4, expected 5 +- 0; 2 of 8 elements are outside");
}

TEST(FailureBlock, HasAtMost25LinesAndAllOfThemWithV) {
  FailureSections s;
  for (auto* section : {&s.wrong, &s.reduced, &s.needs, &s.where, &s.likely, &s.replay}) {
    for (int n = 0; n < 40; ++n) section->push_back("line " + std::to_string(n) + "\nand its second");
  }
  const auto brief = lines_in(failure_block(s, false, false));
  EXPECT_EQ(brief.size(), kMostFailureLines);
  EXPECT_EQ(
      std::ranges::count_if(
          brief, [](const std::string& line) { return line.find("more lines: -v prints them") != line.npos; }),
      6);
  EXPECT_EQ(lines_in(failure_block(s, true, false)).size(), 6u * 80);
}

TEST(FailureBlock, AddsTheCaseAsItWasFoundWithV) {
  const Failure failure = some_failure();
  const Filed filed = some_filed(failure);
  const std::string brief = failure_block(sections_of(failure, filed, 1, false), false, false);
  const std::string all = failure_block(sections_of(failure, filed, 1, true), true, false);
  for (const char* words : {"does not matter: batch; dtype", "before it was reduced: FAIL", "case: "}) {
    EXPECT_EQ(brief.find(words), brief.npos) << words;
    EXPECT_NE(all.find(words), all.npos) << words;
  }
}

TEST(FailureBlock, IsPlainWithoutColor) {
  const Failure failure = some_failure();
  const FailureSections s = sections_of(failure, some_filed(failure), 1, false);
  EXPECT_EQ(failure_block(s, false, false).find('\x1b'), std::string::npos);
  EXPECT_TRUE(failure_block(s, false, true).starts_with("\x1b[1;31mFAIL\x1b[0m (reference"));
}

Checked some_checked() {
  Checked checked;
  checked.kernel.name = "fa1";
  checked.kernel.build_kind = "plain";
  PropertyStats& n = checked.result.properties["reference"];
  n.cases = 12345;
  n.passed = 12000;
  n.uninformative = 271;
  n.rejected = 74;
  checked.result.seconds = 97.4;
  checked.left_out = {"the builds asan, tsan (--build)"};
  return checked;
}

TEST(Summary, IsOneLineAndWhatWasLeftOut) {
  EXPECT_EQ(summary_text(some_checked(), 26, 1, false),
            "fa1  cpu plain: 12,345 cases, 26 properties, 0 failed, 271 not judged, 97 s\n"
            "  left out: 74 cases that it refused; the builds asan, tsan (--build)\n");
}

TEST(Summary, ListsAssumptionsOnOneLine) {
  Checked checked = some_checked();
  checked.left_out.clear();
  checked.result.properties["reference"].rejected = 0;
  checked.result.assumptions = {{Assumption::Part::kExp, "__expf"}, {Assumption::Part::kLog, "__logf"}};
  const auto lines = lines_in(summary_text(checked, 26, 1, false));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1], "  assumed, as plan() leaves it open: exp: __expf; log: __logf");
}

TEST(Summary, DoesNotLookLikeAPassIfTheCheckDidNotPass) {
  Checked checked = some_checked();
  checked.not_judged = {"why"};
  EXPECT_NE(summary_text(checked, 26, 1, false).find(", too little was judged\n"), std::string::npos);
  checked.result.interrupted = true;
  EXPECT_NE(summary_text(checked, 26, 1, false).find(", interrupted\n"), std::string::npos);
  checked.result.failures.push_back(some_failure());
  EXPECT_NE(summary_text(checked, 26, 1, false).find(", 1 failed, "), std::string::npos);
}

TEST(Summary, NamesTheSeedUnlessItIs1) {
  EXPECT_EQ(summary_text(some_checked(), 26, 1, false).find("seed"), std::string::npos);
  EXPECT_NE(summary_text(some_checked(), 26, 77, false).find(", seed 77\n"), std::string::npos);
}

TEST(Counted, SeparatesThousands) {
  EXPECT_EQ(counted(0), "0");
  EXPECT_EQ(counted(999), "999");
  EXPECT_EQ(counted(1000), "1,000");
  EXPECT_EQ(counted(1234567), "1,234,567");
}

}  // namespace
}  // namespace attnfuzz
