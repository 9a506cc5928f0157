// Files a failing call of `attnfuzz train-step` or `attnfuzz nsa`. The inputs of such a call were computed by
// earlier calls (properties/judge/given_call.h), so the call is first turned into an ordinary case.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "cli/open/open_kernel.h"
#include "properties/judge/given_call.h"

namespace attnfuzz {

struct GivenFailure {
  const Case& c;
  std::span<const GivenInput> inputs;
  const Verdict& verdict;
  std::string found;  // "train-step in S = 512, step 1"
  std::string again;  // the command line that makes the call again (again_line())
  uint64_t seed;
};

// The options of a command that files such failures.
struct FilingOptions {
  std::string out;  // the folder of reproducers
  double reduce_seconds = 30;
  bool verbose = false;
  TargetOptions target;
};
// `shown`: what --verbose shows.
void add_filing_options(CLI::App& command, FilingOptions& options, const std::string& shown);

struct GivenFiling {
  const FilingOptions& options;
  std::function<bool()> stop;                       // asked while a failure is reduced
  std::function<void(const std::string&)> at_work;  // called with a text before each step that may take long,
                                                    // and with an empty one after the last
};

// Looks for an ordinary case of this call that fails too, preferably with a failure of the same kind. Files the
// case and prints it. If there is none, prints how to make the call again.
void file_given(const GivenFailure& failure, Target& target, const Calibration& calibration,
                const KernelLibrary& library, const GivenFiling& filing);

}  // namespace attnfuzz
