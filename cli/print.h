// How results look on a terminal, in a pipe, as JSON and as JUnit XML.
#pragma once

#include <optional>
#include <string>

#include "fuzz/check/check.h"

namespace attnfuzz {

// "  reference            250    249      0      1    0.412    0.0031" and its head.
std::string properties_table(const CheckResult& result);

// Everything a check prints after its table: draw, floors, digest, speed.
std::string check_notes(const CheckResult& result);

// A verdict in a few lines: what, where, how it looks.
std::string verdict_text(const Verdict& verdict);

// What became of a failure: its file, and unless it was not seen again, its reduction.
struct Filed {
  std::string reproducer;
  std::optional<Reduction> reduction;
  double reduce_seconds = 0;
};

// One line. Of a failure: "seconds" until it was found, "reduction" with seconds,
// evaluations and the minimal case in words.
std::string check_json(const KernelInfo& kernel, const CheckOptions& options, const CheckResult& result,
                       const Filed& filed);

// One test suite a kernel, one test case a property.
struct JUnitSuite {
  std::string name;
  const CheckResult* result;
};
std::string junit_xml(const std::vector<JUnitSuite>& suites);

// "attnfuzz replay FILE", with what this invocation was called by.
std::string replay_line(const std::string& file);

// Overwrites one line on a terminal; prints nothing in a pipe.
class ProgressLine {
 public:
  explicit ProgressLine(std::string label);
  ~ProgressLine();
  void show(uint64_t done, uint64_t of, double seconds);

 private:
  std::string label_;
  bool terminal_;
};

}  // namespace attnfuzz
