// All that came of checking one kernel, and the printers of it for machines: JSON, JUnit XML, SARIF and
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
  std::vector<std::string> before = {};  // files of the cases without which it does not fail, in their order
  std::optional<Reduction> reduction = {};
  std::string build_kind = {};  // of a sanitizer that took the failure over (fuzz/check/vote.h); empty: none
  std::string vote = {};        // what other builds and orders of threads said
  double reduce_seconds = 0;
  FaultGuess guess = {};              // of a reduction
  std::string replay = {};            // the command line that runs it again
  std::vector<std::string> how = {};  // further lines of how it was found
  std::vector<std::string> statistics =
      {};  // what to declare, if the kernel does not promise to get the case right
};

struct Checked {
  std::string suite;  // of JUnit: kernels of two libraries may share a name
  KernelInfo kernel;
  uint32_t measures = 0;  // what its worker was confined by (fuzz/host/confinement.h); 0: it is trusted
  Refused refused;
  CheckResult result;
  std::optional<Covered> covered = {};     // measured of so many cases that it says something
  std::vector<Filed> filed;                // of each of result.failures
  std::vector<std::string> warnings = {};  // files of result.warnings
  std::optional<double> taken = {};     // which share of what it may be asked it takes, of a kernel not trusted
  std::optional<KeyTiles> tiles = {};   // of a kernel that failed no case
  Exploit exploit = Exploit::kNone;     // of a kernel that failed no case, and is no pass
  std::vector<std::string> not_judged;  // why it is no pass though nothing failed, see fuzz/check
  std::vector<std::string> left_out = {};  // properties, builds and old findings that were not run, and why
};

// "found", "interrupted", "not judged" or "held".
const char* status_of(const Checked& checked);

// All properties together.
PropertyStats total_of(const CheckResult& result);

// One line: what was checked, its statistics as a campaign keeps them (fuzz/check/records.h), and
// of a failure "seconds" until it was found, "reduction" with seconds, evaluations and the
// minimal case in words.
std::string check_json(const CheckOptions& options, const Checked& checked);

// Why an interrupted check is no pass, in JUnit, SARIF and annotations.
inline constexpr const char* kInterruptedWhy = "interrupted: what was not judged may fail";

// One test suite a kernel, one test case a property; a failure's text is failure_text().
std::string junit_xml(const std::vector<Checked>& all);

// SARIF 2.1.0: one rule a kind of failure, one result a failure and a kernel that was not judged. A result lies
// where a sanitizer or the executor saw it, otherwise in the reproducer.
std::string sarif_json(const std::vector<Checked>& all, const std::string& version);

// Lines that GitHub Actions reads from standard output and shows beside the code: "::error title=...::message".
std::string github_annotations(const std::vector<Checked>& all);

}  // namespace attnfuzz
