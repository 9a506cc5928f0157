// The complete result of checking one kernel, and its printers for machines: JSON, JUnit XML, SARIF and
// GitHub's annotations. summary.h, tables.h and failure.h print it for people.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fuzz/check/check.h"
#include "fuzz/check/key_tiles.h"
#include "properties/explain/fault_class.h"

namespace attnfuzz {

// The files and the reduction of a failure. There is no reduction if the failure did not come again.
struct Filed {
  std::string reproducer;
  std::vector<std::string> before = {};  // files of the cases that must run before it, in their order
  std::optional<Reduction> reduction = {};
  std::string build_kind = {};  // the sanitizer build that reduced it again (fuzz/check/failure/vote.h); empty: none
  std::string vote = {};        // the results in other builds and orders of threads
  double reduce_seconds = 0;
  FaultGuess guess = {};              // only with a reduction
  std::string replay = {};            // the command line that runs it again
  std::vector<std::string> how = {};  // further lines about how it was found
  std::vector<std::string> statistics =
      {};  // declarations that would exclude the case, if the kernel does not promise to handle it
};

struct Checked {
  std::string suite;  // of JUnit: kernels of two libraries may share a name
  KernelInfo kernel;
  uint32_t measures = 0;  // the measures that confined its worker (fuzz/host/confinement.h); 0: it is trusted
  Refused refused;
  CheckResult result;
  std::optional<Covered> covered = {};     // set if there were enough cases to measure it
  std::vector<Filed> filed;                // one for each of result.failures
  std::vector<std::string> warnings = {};  // files of result.warnings
  std::optional<double> taken = {};        // of an untrusted kernel: the share of problems that it takes
  std::optional<KeyTiles> tiles = {};      // set if no case failed
  Exploit exploit = Exploit::kNone;        // set if no case failed, but the check does not pass
  std::vector<std::string> not_judged;  // why the check does not pass although nothing failed, see fuzz/check
  std::vector<std::string> left_out = {};  // properties, builds and old findings that were not run, and why
};

// "found", "interrupted", "not judged" or "held".
const char* status_of(const Checked& checked);

// All properties together.
PropertyStats total_of(const CheckResult& result);

// One line: what was checked, and its statistics as a campaign keeps them (fuzz/check/counts/records.h). For a
// failure, "seconds" is the time until it was found, and "reduction" has seconds, evaluations and the minimal
// case in words.
std::string check_json(const CheckOptions& options, const Checked& checked);

// The reason why an interrupted check does not pass, in JUnit, SARIF and annotations.
inline constexpr const char* kInterruptedWhy = "interrupted: what was not judged may fail";

// One test suite a kernel, one test case a property; a failure's text is failure_text().
std::string junit_xml(const std::vector<Checked>& all);

// SARIF 2.1.0: one rule a kind of failure, one result a failure and a kernel that was not judged. A result's
// location is the line that a sanitizer or the executor reported, otherwise the reproducer.
std::string sarif_json(const std::vector<Checked>& all, const std::string& version);

// Lines that GitHub Actions reads from standard output and shows beside the code: "::error title=...::message".
std::string github_annotations(const std::vector<Checked>& all);

}  // namespace attnfuzz
