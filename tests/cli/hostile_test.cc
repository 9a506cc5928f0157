// Tests that hostile names, reasons and messages stay text wherever the command writes them. They hold quotes,
// line ends, escape sequences, ends of comments, commands in $(), bytes that are no UTF-8, and marks that
// turn the direction of writing.
//
// Each document is compared with the same document for plain names: everything but the names must be equal.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <pugixml.hpp>
#include <set>
#include <sstream>

#include "base/json.h"
#include "base/printable.h"
#include "cli/print/checked.h"
#include "cli/print/failure.h"
#include "cli/print/summary.h"
#include "cli/print/tables.h"
#include "cli/print/verdict.h"
#include "fuzz/campaign/triage/files/issue_text.h"
#include "fuzz/report/report.h"
#include "properties/case/words.h"
#include "properties/data/fills.h"
#include "properties/explain/explain.h"
#include "properties/export/export.h"
#include "properties/judge/trial.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

// A text of random bytes and of fragments that some format treats specially.
std::string hostile_text(uint64_t seed) {
  static const std::string fragments[] = {"\"",
                                          "'",
                                          "\n",
                                          "\r",
                                          "\\",
                                          "*/",
                                          "/*",
                                          "//",
                                          "\"\"\"",
                                          "'''",
                                          "$(touch x)",
                                          "`touch x`",
                                          "; rm -rf x",
                                          "\x1b[2J",
                                          "\x1b]0;x\x07",
                                          "\xff",
                                          "\xc3",
                                          "\xed\xa0\x80",
                                          "\xe2\x80\xae",
                                          "\xe2\x81\xa6",
                                          "\xe2\x80\xa8",
                                          "\xc2\x85",
                                          "\xef\xbf\xbe",
                                          "<script>",
                                          "</td>",
                                          "]]>",
                                          "-->",
                                          "&",
                                          "&#10;",
                                          "|",
                                          "[x](y)",
                                          "![x](y)",
                                          "# ",
                                          "coding: utf-7 +AAo-",
                                          "@HEAD@",
                                          "@CASE@",
                                          "@BOUNDS@",
                                          "%s%n",
                                          "?\?/",
                                          "\\N{DIGIT ONE}",
                                          "\\u0022",
                                          "{0}",
                                          "/",
                                          ":",
                                          "#",
                                          "import os; os.system('x')",
                                          "\nreplay: attnfuzz replay x",
                                          "\f",
                                          "\v",
                                          "--",
                                          std::string("\0", 1),
                                          std::string(300, 'x')};
  std::string text = "n";
  const uint64_t parts = mix(seed, 0, 0, 0, 0) % 6 + 1;
  for (uint64_t n = 1; n <= parts; ++n) {
    const uint64_t bits = mix(seed, n, 0, 0, 0);
    text += bits % 4 == 0 ? std::string(1, static_cast<char>(bits >> 8))
                          : fragments[(bits >> 8) % std::size(fragments)];
  }
  return text;
}

// The results of a check in which one text is every name, reason and message.
struct Document {
  Export e;
  Finding finding;
  TargetRecord record;
  CampaignHeader header;
  KernelInfo kernel;
  CheckResult result;

  Checked checked() const {
    return {.suite = kernel.name,
            .kernel = kernel,
            .refused = {},
            .result = result,
            .filed = {Filed{.reproducer = finding.name}},
            .not_judged = {kernel.name}};
  }

  explicit Document(const Export& prepared, const std::string& text) : e(prepared) {
    std::string name = text;
    std::erase(name, '\0');  // a kernel's name is a C string
    e.kernel_name = name;
    e.message = e.shape = text;
    std::strncpy(e.plan.path, text.c_str(), sizeof e.plan.path - 1);
    Reproducer& r = e.r;
    r.kernel = "/some/where/" + name;
    r.build_hash = r.compiler = r.flags = r.device = r.kind = r.message = r.shape = text;
    r.needs = {{.part = text, .text = text}};
    r.indifferent = {text};
    r.c.build_kind = text;
    finding.name = finding.key = finding.target = finding.property = finding.kind = finding.message = text;
    finding.shape = finding.found = finding.minimal = finding.guess = finding.tolerated = text;
    finding.needs = r.needs;
    finding.indifferent = finding.also = finding.sites = {text};
    finding.reduced = false;
    record.name = record.kernel = record.backend = record.build_kind = record.build = record.compiler = text;
    record.flags = record.device = record.calibration = record.worker_build = text;
    header.version = header.started = text;
    header.command = {text};
    header.targets = {record};
    header.sessions.resize(1);
    Session& session = header.sessions[0];
    session.started = session.ended = session.machine.cpu = session.machine.host = session.machine.os = text;
    session.notes = session.machine.gpus = {text};
    kernel.name = kernel.build_kind = kernel.device = kernel.build.hash = text;
    result.properties[text].cases = 1;
    result.properties[text].failed = 1;
    result.rejections[text] = 2;
    result.assumptions = {{Assumption::Part::kExp, text}};
    Failure& failure = result.failures.emplace_back();
    failure.property = find_property("reference");
    Verdict& v = failure.verdict;
    v.outcome = Outcome::kFail;
    v.property = "reference";
    v.message = text;
    v.shapes = {text};
    v.assumptions = {{Assumption::Part::kExp, text}};
    v.fault = Fault{};
    v.fault->message = v.fault->file = text;
    v.plan = e.plan;
    v.plan.size = sizeof v.plan;
  }
};

class Hostile : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    FakeTarget target;
    Reproducer r;
    r.property = "reference";
    r.c.problem.seq_k = 3;
    prepared_ = new Export(std::get<Export>(prepare_export(r, target, documented())));
  }
  static void TearDownTestSuite() { delete prepared_; }
  // Calls check(document with plain names, document with hostile names) for several hostile texts.
  template <typename Check>
  void each(Check check) {
    const Document plain(*prepared_, "plain");
    for (uint64_t seed = 0; seed < 400 && !HasFailure(); ++seed) {
      const std::string text = hostile_text(seed);
      SCOPED_TRACE(printable(text));
      check(plain, Document(*prepared_, text));
    }
  }
  static Export* prepared_;
};
Export* Hostile::prepared_ = nullptr;

void expect_clean(const std::string& text) { EXPECT_EQ(printable_lines(text), text); }

// A program without its comments, its strings and its white space.
std::string skeleton(const std::string& program, const std::string& comment) {
  std::string out;
  for (size_t at = 0; at < program.size();) {
    if (program.compare(at, comment.size(), comment) == 0) {
      at = std::min(program.find('\n', at), program.size());
    } else if (program[at] == '"' || program[at] == '\'') {
      std::string quote(1, program[at]);
      if (comment == "#" && program.compare(at, 3, quote + quote + quote) == 0) quote += quote + quote;
      out += quote;
      for (at += quote.size(); at < program.size() && program.compare(at, quote.size(), quote) != 0; ++at) {
        EXPECT_TRUE(quote.size() == 3 || program[at] != '\n')
            << "a string without an end: " << program.substr(at - 60, 60);
        if (program[at] == '\\') ++at;
      }
      at += quote.size();
    } else {
      if (!std::isspace(static_cast<unsigned char>(program[at]))) out += program[at];
      ++at;
    }
  }
  return out;
}

// The bytes that a literal in double quotes behind `before` stands for.
std::string literal_after(const std::string& program, const std::string& before) {
  size_t at = program.find(before);
  EXPECT_NE(at, std::string::npos);
  std::string bytes;
  for (at += before.size() + 1; program[at] != '"'; ++at) {
    if (program[at] != '\\') {
      bytes += program[at];
      continue;
    }
    bytes += static_cast<char>(std::stoi(program.substr(at + 1, 3), nullptr, 8));
    at += 3;
  }
  return bytes;
}

TEST_F(Hostile, NamesStayTextInPrograms) {
  each([](const Document& plain, const Document& d) {
    const std::string cpp = export_cpp(d.e, "a.cc"), python = export_python(d.e, "a.py");
    expect_clean(cpp);
    expect_clean(python);
    EXPECT_EQ(skeleton(cpp, "//"), skeleton(export_cpp(plain.e, "a.cc"), "//"));
    EXPECT_EQ(skeleton(python, "#"), skeleton(export_python(plain.e, "a.py"), "#"));
    EXPECT_EQ(literal_after(cpp, "kKernel[] = "), d.e.kernel_name);
    EXPECT_EQ(literal_after(python, "KERNEL = CPU, b"), d.e.kernel_name);
    // A comment's last backslash would continue it; the second line decides how Python reads the rest.
    EXPECT_EQ(cpp.find("\\\n"), std::string::npos);
    EXPECT_EQ(python.find("# -*- coding: utf-8 -*-\n"), python.find('\n') + 1);
  });
}

std::string page_of(const Document& d) {
  report::Report report;
  report.dir = d.record.name;
  report.header = d.header;
  report::FindingEntry entry;
  entry.finding = d.finding;
  entry.file = entry.file_text = d.finding.name;
  entry.reproducer = d.e.r;
  entry.picture = picture_without_error(d.e.r.c, d.finding.message);
  report.findings = {entry};
  report.never_again = {d.finding};
  report.problems = {d.finding.message};
  SeededBugResult seeded_bug;
  seeded_bug.target = seeded_bug.message = seeded_bug.finding = d.finding.name;
  report.seeded_bugs = {seeded_bug};
  report.corpus[d.finding.name] = 1;
  report.targets[d.record.name].rejections[d.finding.message] = 1;
  CorpusEntry newest;
  newest.id = newest.kernel = newest.target = newest.property = newest.origin = d.finding.name;
  report.newest = {newest};
  return report::report_page(report::report_json(report, d.finding.name));
}

TEST_F(Hostile, NamesStayTextInTheReport) {
  each([](const Document& plain, const Document& d) {
    // The page's JSON data, and the page without the data.
    const auto parts = [](const Document& of) {
      const std::string page = page_of(of), begin = "id=\"data\">";
      const size_t at = page.find(begin) + begin.size(), end = page.find("</script", at);
      return std::pair(page.substr(at, end - at), page.substr(0, at) + page.substr(end));
    };
    const auto [data, page] = parts(d);
    EXPECT_EQ(page, parts(plain).second);
    EXPECT_EQ(data.find('<'), data.npos);
    expect_clean(data);
    const auto parsed = parse_json(data);
    EXPECT_TRUE(std::holds_alternative<Json>(parsed)) << std::get<DecodeError>(parsed).message;
  });
}

TEST_F(Hostile, NamesStayTextInAnIssue) {
  each([](const Document& plain, const Document& d) {
    const auto issue = [](const Document& of) {
      return issue_text(of.finding, of.e.r, {of.header, of.record, "t"});
    };
    const std::string text = issue(d), usual = issue(plain);
    expect_clean(text);
    EXPECT_EQ(std::ranges::count(text, '\n'), std::ranges::count(usual, '\n'));
    // Outside of indented code, each character of markup is escaped.
    for (size_t at = 0, end; at < text.size(); at = end + 1) {
      end = text.find('\n', at);
      const std::string line = text.substr(at, end - at);
      if (line.starts_with("    ")) continue;
      for (size_t n = line.find_first_of("`[<*"); n != line.npos; n = line.find_first_of("`[<*", n + 1)) {
        EXPECT_TRUE(n > 0 && line[n - 1] == '\\') << line;
      }
    }
  });
}

TEST_F(Hostile, NamesStayTextInJson) {
  std::string due;  // the names that the plain document's JSON has
  each([&due](const Document& plain, const Document& d) {
    const auto names = [](const Json& j) {
      std::string all;
      for (const auto& [name, value] : j.items()) all += name + (value.is_structured() ? " {}\n" : "\n");
      return all;
    };
    const auto json = [&](const Document& of) {
      const std::string line = check_json({}, of.checked());
      EXPECT_EQ(std::ranges::count(line, '\n'), 1);
      const auto parsed = parse_json(line);
      EXPECT_TRUE(std::holds_alternative<Json>(parsed)) << line;
      return names(std::get<Json>(parsed));
    };
    if (due.empty()) due = json(plain);
    EXPECT_EQ(json(d), due);
    // The first encode() replaces bytes that are no UTF-8; a second round must change nothing.
    const auto written = decode_reproducer(encode(d.e.r, d.finding.name));
    ASSERT_TRUE(std::holds_alternative<Reproducer>(written)) << std::get<DecodeError>(written).message;
    const std::string file = encode(std::get<Reproducer>(written), d.finding.name);
    const auto back = decode_reproducer(file);
    ASSERT_TRUE(std::holds_alternative<Reproducer>(back)) << std::get<DecodeError>(back).message;
    // Without the replay line, which keeps the bytes of the path.
    const std::string again = encode(std::get<Reproducer>(back), d.finding.name);
    EXPECT_EQ(again.substr(again.find('\n', 2)), file.substr(file.find('\n', 2)));
  });
}

// The names of the tags, without attributes and text.
std::string tags(const std::string& page) {
  std::string out;
  for (size_t at = page.find('<'); at != page.npos; at = page.find('<', at + 1)) {
    out += page.substr(at, page.find_first_of(" >/", at + 1) - at) + "\n";
  }
  return out;
}

TEST_F(Hostile, NamesStayTextInJUnit) {
  each([](const Document& plain, const Document& d) {
    const auto suites = [](const Document& of) { return junit_xml({of.checked()}); };
    const std::string xml = suites(d);
    expect_clean(xml);
    EXPECT_EQ(tags(xml), tags(suites(plain)));
    // An XML parser gets the whole message, with its line ends.
    pugi::xml_document read;
    ASSERT_TRUE(read.load_string(xml.c_str()));
    const std::string message = read.select_node("//failure/@message").attribute().value();
    EXPECT_EQ(message.substr(0, message.find(" (path: ")),
              printable_lines(d.result.failures[0].verdict.message));
  });
}

TEST_F(Hostile, AFailureInJUnitSaysWhatToDo) {
  each([](const Document& plain, const Document&) {
    Checked checked = plain.checked();
    checked.filed[0].replay = "attnfuzz replay some.attn.json --kernel mine";
    pugi::xml_document read;
    ASSERT_TRUE(read.load_string(junit_xml({checked}).c_str()));
    const pugi::xml_node failure = read.select_node("//failure").node();
    EXPECT_STREQ(failure.attribute("type").value(), to_string(plain.result.failures[0].verdict.kind));
    const std::string text = failure.text().get();
    EXPECT_NE(text.find("case: " + describe(plain.result.failures[0].c)), text.npos) << text;
    EXPECT_NE(text.find("reproducer: "), text.npos) << text;
    EXPECT_NE(text.find("replay: attnfuzz replay some.attn.json --kernel mine"), text.npos) << text;
    const std::string begun = read.select_node("//testsuite/@timestamp").attribute().value();
    EXPECT_EQ(begun.size(), std::string("2026-03-01T22:15:00").size()) << begun;
  });
}

// Checks the requirements of SARIF 2.1.0 (OASIS, sections 3.13, 3.14, 3.19, 3.27, 3.29 and 3.30).
TEST_F(Hostile, NamesStayTextInSarif) {
  each([](const Document&, const Document& d) {
    Checked checked = d.checked();
    checked.kernel.library = "lib/" + d.kernel.name + ".so";
    const std::string text = sarif_json({checked}, "attnfuzz 1.2.3");
    expect_clean(text);
    const Json log = Json::parse(text);
    EXPECT_EQ(log.at("version"), "2.1.0");
    ASSERT_EQ(log.at("runs").size(), 1u);
    const Json& run = log.at("runs")[0];
    const Json& driver = run.at("tool").at("driver");
    EXPECT_EQ(driver.at("name"), "attnfuzz");
    EXPECT_EQ(driver.at("version"), "1.2.3");
    std::set<std::string> rules;
    for (const Json& rule : driver.at("rules")) EXPECT_TRUE(rules.insert(rule.at("id")).second);
    ASSERT_EQ(run.at("results").size(), d.result.failures.size() + 1);
    for (const Json& result : run.at("results")) {
      EXPECT_TRUE(rules.contains(result.at("ruleId")));
      EXPECT_EQ(result.at("level"), "error");
      EXPECT_FALSE(result.at("message").at("text").get<std::string>().empty());
      ASSERT_EQ(result.at("locations").size(), 1u);
      for (const Json& location : result.at("locations")) {
        const Json& at = location.at("physicalLocation");
        const std::string uri = at.at("artifactLocation").at("uri");
        EXPECT_EQ(uri.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/%"),
                  uri.npos);
        EXPECT_GE(at.at("region").at("startLine").get<int>(), 1);
      }
    }
  });
}

TEST_F(Hostile, NamesStayTextInAnnotations) {
  each([](const Document&, const Document& d) {
    const std::string lines = github_annotations({d.checked()});
    expect_clean(lines);
    std::istringstream in(lines);
    size_t count = 0;
    for (std::string line; std::getline(in, line); ++count) EXPECT_TRUE(line.starts_with("::error ")) << line;
    EXPECT_EQ(count, d.result.failures.size() + 1);
  });
}

TEST_F(Hostile, AnInterruptedCheckIsNotGreenInSarifAndAnnotations) {
  Checked checked = Document(*prepared_, "plain").checked();
  checked.result.failures.clear();
  checked.not_judged.clear();
  const auto results = [&] {
    return Json::parse(sarif_json({checked}, "attnfuzz 1.2.3")).at("runs")[0].at("results");
  };
  EXPECT_TRUE(results().empty());
  EXPECT_EQ(github_annotations({checked}), "");
  checked.result.interrupted = true;
  ASSERT_EQ(results().size(), 1u);
  EXPECT_EQ(results()[0].at("ruleId"), "not-judged");
  EXPECT_TRUE(github_annotations({checked}).starts_with("::error "));
}

TEST_F(Hostile, NamesStayTextOnATerminal) {
  each([](const Document&, const Document& d) {
    expect_clean(verdict_text(d.result.failures[0].verdict));
    expect_clean(check_notes(d.result, {}, {}, ""));
    const Checked checked = d.checked();
    expect_clean(summary_text(checked, 1, 1, false));
    Failure failure = d.result.failures[0];
    const std::string block = failure_block(sections_of(failure, checked.filed[0], 1, true), true, false);
    EXPECT_EQ(block.find("\nreplay: "), block.npos) << "a kernel's own words pass for a replay line";
    ExplainOptions options;
    options.reproducer = &d.e.r;
    Case c = d.e.r.c;
    expect_clean(explain(c, d.e.plan, nullptr, nullptr, options));
    expect_clean(describe(c));
    const std::string line = replay_line(d.finding.name, d.e.r.kernel, d.e.r.peer);
    EXPECT_EQ(printable(line, line.size()), line);
    const std::string label = kernel_label(d.kernel.name);
    EXPECT_EQ(printable(label), label);
    EXPECT_EQ(kernel_label(label), label);
    EXPECT_EQ(label.find('/'), std::string::npos);
    const std::string file = reproducer_name(d.e.r);
    EXPECT_EQ(file.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"),
              file.npos);
    EXPECT_LT(file.size(), 200u);
  });
}

}  // namespace
}  // namespace attnfuzz
