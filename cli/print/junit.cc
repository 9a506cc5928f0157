// Writes a check as JUnit XML, which CI servers read.
#include <ctime>
#include <map>
#include <pugixml.hpp>
#include <sstream>

#include "base/printable.h"
#include "cli/print/checked.h"
#include "cli/print/failure.h"
#include "fuzz/check/counts/kernel_path.h"

namespace attnfuzz {
namespace {

// Messages come from a kernel, and may contain characters that XML cannot represent.
void set(pugi::xml_node node, const char* name, const std::string& text) {
  node.append_attribute(name).set_value(printable_lines(text).c_str());
}

// The time in UTC, in JUnit's format: 2026-03-01T22:15:00.
std::string seconds_ago(double seconds) {
  const std::time_t then = std::time(nullptr) - static_cast<std::time_t>(seconds);
  std::tm parts = {};
  gmtime_r(&then, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return text;
}

void append(pugi::xml_node suites, const Checked& checked) {
  const CheckResult& result = checked.result;
  pugi::xml_node suite = suites.append_child("testsuite");
  set(suite, "name", checked.suite);
  auto counted = suite.append_attribute("tests"), failed = suite.append_attribute("failures");
  set(suite, "time", std::to_string(result.seconds));
  set(suite, "timestamp", seconds_ago(result.seconds));
  pugi::xml_node paths = result.paths.empty() ? pugi::xml_node() : suite.append_child("properties");
  for (const auto& [path, n] : result.paths) {
    pugi::xml_node property = paths.append_child("property");
    set(property, "name", "cases by path " + path);
    property.append_attribute("value").set_value(n.cases);
  }
  // One test case for each property, and one for the whole check if it was not judged.
  std::map<std::string, pugi::xml_node> tests;
  const auto test = [&](const std::string& name) {
    const auto [it, is_new] = tests.try_emplace(name);
    if (is_new) {
      it->second = suite.append_child("testcase");
      set(it->second, "classname", checked.suite);
      set(it->second, "name", name);
    }
    return it->second;
  };
  size_t failures = 0;
  const auto fails = [&](const std::string& name, const char* type, const std::string& why,
                         const std::string& text) {
    pugi::xml_node failure = test(name).append_child("failure");
    set(failure, "message", why);
    set(failure, "type", type);
    if (!text.empty()) failure.text().set(printable_lines(text).c_str());
    ++failures;
  };
  for (const auto& [name, n] : result.properties) {
    if (n.passed + n.failed > 0)
      test(name);
    else
      set(test(name).append_child("skipped"), "message", "no case of this property was judged");
  }
  for (size_t n = 0; n < result.failures.size(); ++n) {
    const Failure& failure = result.failures[n];
    const std::string path = path_of(failure.verdict.plan);
    fails(failure.property->name, to_string(failure.verdict.kind),
          failure.verdict.message + (path.empty() ? "" : " (path: " + path + ")"),
          failure_text(failure, n < checked.filed.size() ? &checked.filed[n] : nullptr));
  }
  for (const std::string& why : checked.not_judged) fails("judged", "not-judged", why, "");
  if (result.interrupted) fails("complete", "interrupted", kInterruptedWhy, "");
  counted.set_value(tests.size());
  failed.set_value(failures);
}

}  // namespace

std::string junit_xml(const std::vector<Checked>& all) {
  pugi::xml_document document;
  pugi::xml_node suites = document.append_child("testsuites");
  for (const Checked& checked : all) append(suites, checked);
  std::ostringstream text;
  document.save(text, "  ", pugi::format_default, pugi::encoding_utf8);
  return text.str();
}

}  // namespace attnfuzz
