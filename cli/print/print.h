// Prints results: as text for a terminal or a pipe, as JSON, JUnit XML and SARIF, and as GitHub's annotations.
#pragma once

#include <optional>
#include <string>

#include "fuzz/check/check.h"
#include "fuzz/check/key_tiles.h"
#include "properties/explain/fault_class.h"

namespace attnfuzz {

namespace report {
struct Report;
}

// "  reference            250    249      0      1    0.412    0.0031" and its head; the same of each
// path through the kernel (fuzz/check/kernel_path.h).
std::string properties_table(const CheckResult& result);

// Everything a check prints after its table: draw, coverage where it was measured, floors, digest, speed.
// `path`: the one asked for, or empty.
std::string check_notes(const CheckResult& result, const Refused& refused,
                        const std::optional<Covered>& covered, const std::string& part);

// A verdict in a few lines: what, where, how it looks.
std::string verdict_text(const Verdict& verdict);
// How much each oracle judged, if there is a fast one.
std::string oracle_text(const OracleUse& use);

FaultGuess guess_of(const Reduction& reduction, Target& target, const Calibration& calibration);

// A reduction in words: its minimal case, what that needs, what does not matter, the likely fault.
std::string reduction_text(const Reduction& reduction, const FaultGuess& guess);

// A reproducer of what was reduced; `reduction`: null while it goes on.
Reproducer reproducer_of(const Case& c, const Verdict& verdict, const Reduction* reduction, Target& target);

// A filed failure: its file, and if it was seen again, its reduction.
struct Filed {
  std::string reproducer;
  std::vector<std::string> before = {};  // files of the cases without which it does not fail, in their order
  std::optional<Reduction> reduction = {};
  std::string lane = {};  // of a sanitizer that took the failure over (fuzz/check/vote.h); empty: none
  std::string vote = {};  // what other lanes and orders of threads said
  double reduce_seconds = 0;
  FaultGuess guess = {};    // of a reduction
  std::string replay = {};  // the command line that runs it again
};

// All that came of checking one kernel.
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
};

// "found", "interrupted", "not judged" or "held".
const char* status_of(const Checked& checked);

// One line: what was checked, its statistics as a campaign keeps them (fuzz/check/records.h), and
// of a failure "seconds" until it was found, "reduction" with seconds, evaluations and the
// minimal case in words.
std::string check_json(const CheckOptions& options, const Checked& checked);

// A campaign's folder; on stderr, what of it cannot be read and what was not judged.
report::Report read_and_tell(const std::string& dir);

// The parts that a plan leaves open and what is assumed for each, in one line: "  assumed, as plan() leaves it
// open: exp: __expf; ...". `assumptions`: ErrorModel's. Empty: nothing is open.
std::string assumed_line(const std::vector<Assumption>& assumptions);

// A failure in lines: the reduced case with its likely fault, the reproducer, the replay line.
// `filed`: null if the failure was not filed.
std::string failure_text(const Failure& failure, const Filed* filed);

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
