// Files the failure of a call on numbers that an earlier call or arithmetic has made
// (properties/judge/given_call.h), as steps of training and compositions of stages have them.
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

struct GivenFiling {
  std::string folder;  // of reproducers
  double reduce_seconds;
  bool verbose;
  const TargetOptions& target;
  std::function<bool()> stop;                       // asked while a failure is reduced
  std::function<void(const std::string&)> at_work;  // called with a text before each step that may take long,
                                                    // and with an empty one behind the last
};

// Makes an ordinary case of the call that fails as well, in the same way if there is such a case, files it, and
// prints it. If there is none, prints how to make the call again.
void file_given(const GivenFailure& failure, Target& target, const Calibration& calibration,
                const KernelLibrary& library, const GivenFiling& filing);

}  // namespace attnfuzz
