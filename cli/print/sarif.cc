// Writes a check's failures for tools that show them beside the code: SARIF, and GitHub Actions
// annotations.
#include <map>

#include "base/json.h"
#include "base/printable.h"
#include "cli/print/checked.h"
#include "cli/print/failure.h"

namespace attnfuzz {
namespace {

struct Place {
  std::string file;
  int line = 1;
};

// The line of code that the failure reports, else its reproducer, else the kernel's library. GitHub rejects a
// SARIF result without a location.
Place place_of(const Checked& checked, const Failure& failure, const Filed* filed) {
  const auto& fault = failure.verdict.fault;
  if (fault && !fault->file.empty() && fault->line > 0) return {fault->file, fault->line};
  const std::string& file = filed ? filed->reproducer : failure.file;
  return {file.empty() ? checked.kernel.library : file, 1};
}

// The reasons, other than failures, why a check does not pass.
std::vector<std::string> lacks_of(const Checked& checked) {
  std::vector<std::string> lacks = checked.not_judged;
  if (checked.result.interrupted) lacks.push_back(kInterruptedWhy);
  return lacks;
}

const Filed* filed_of(const Checked& checked, size_t failure) {
  return failure < checked.filed.size() ? &checked.filed[failure] : nullptr;
}

// A file name as a URI. Every byte that RFC 3986 does not allow is written as %XX.
std::string uri(const std::string& path) {
  std::string text;
  for (const unsigned char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string("-._~/").find(static_cast<char>(c)) != std::string::npos;
    constexpr const char* kHex = "0123456789ABCDEF";
    text += plain ? std::string(1, static_cast<char>(c)) : std::string("%") + kHex[c >> 4] + kHex[c & 15];
  }
  return text;
}

Json result_json(const std::string& rule, const std::string& text, const Place& place) {
  Json result = {{"ruleId", rule}, {"level", "error"}, {"message", {{"text", printable_lines(text)}}}};
  if (!place.file.empty())
    result["locations"] = Json::array(
        {{{"physicalLocation",
           {{"artifactLocation", {{"uri", uri(place.file)}}}, {"region", {{"startLine", place.line}}}}}}});
  return result;
}

// Escapes text for a workflow command:
// https://docs.github.com/actions/reference/workflow-commands-for-github-actions
std::string escaped(const std::string& text, bool property) {
  std::string result;
  for (const char c : text) {
    if (c == '%') {
      result += "%25";
    } else if (c == '\n') {
      result += "%0A";
    } else if (c == '\r') {
      result += "%0D";
    } else if (property && c == ':') {
      result += "%3A";
    } else if (property && c == ',') {
      result += "%2C";
    } else {
      result += c;
    }
  }
  return result;
}

std::string annotation(const std::string& title, const std::string& text, const Place& place) {
  std::string line = "::error ";
  if (!place.file.empty())
    line += "file=" + escaped(printable(place.file, place.file.size()), true) +
            ",line=" + std::to_string(place.line) + ",";
  return line + "title=" + escaped(printable(title), true) + "::" + escaped(printable_lines(text), false) +
         "\n";
}

std::string headline(const Checked& checked, const Failure& failure) {
  return checked.suite + " fails " + failure.property->name + ": " + failure.verdict.message;
}

}  // namespace

std::string sarif_json(const std::vector<Checked>& all, const std::string& version) {
  std::map<std::string, std::string> rules;
  Json results = Json::array();
  for (const Checked& checked : all) {
    for (size_t n = 0; n < checked.result.failures.size(); ++n) {
      const Failure& failure = checked.result.failures[n];
      const std::string rule = to_string(failure.verdict.kind);
      rules[rule] = "A case of an attention kernel fails: " + rule;
      results.push_back(
          result_json(rule, headline(checked, failure) + "\n" + failure_text(failure, filed_of(checked, n)),
                      place_of(checked, failure, filed_of(checked, n))));
    }
    for (const std::string& why : lacks_of(checked)) {
      rules["not-judged"] = "Too little of a kernel was judged";
      results.push_back(result_json("not-judged", checked.suite + ": " + why, {checked.kernel.library, 1}));
    }
  }
  Json described = Json::array();
  for (const auto& [id, text] : rules)
    described.push_back({{"id", id}, {"shortDescription", {{"text", text}}}});
  const Json driver = {
      {"name", "attnfuzz"}, {"version", version.substr(version.find(' ') + 1)}, {"rules", described}};
  const Json run = {{"tool", {{"driver", driver}}}, {"columnKind", "utf16CodeUnits"}, {"results", results}};
  return json_text(Json{{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                        {"version", "2.1.0"},
                        {"runs", Json::array({run})}},
                   1) +
         "\n";
}

std::string github_annotations(const std::vector<Checked>& all) {
  std::string lines;
  for (const Checked& checked : all) {
    for (size_t n = 0; n < checked.result.failures.size(); ++n) {
      const Failure& failure = checked.result.failures[n];
      lines += annotation(headline(checked, failure), failure_text(failure, filed_of(checked, n)),
                          place_of(checked, failure, filed_of(checked, n)));
    }
    for (const std::string& why : lacks_of(checked))
      lines += annotation(checked.suite + " was not judged", why, {});
  }
  return lines;
}

}  // namespace attnfuzz
