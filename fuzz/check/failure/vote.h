// Runs a reduced failure again in ways that show more than wrong numbers:
//
//   1. under six random orders of threads. If only some fail, the failure depends on the order
//   2. in the kernel's builds with a sanitizer: asan, tsan, msan, msan-O0. If a sanitizer reports a fault, the case is
//      reduced again in the first such build, and the failure gets that case and that kind. So a race is reported as a
//      race, and a read of an unwritten register as such. A misaligned access, which x86 allows, is found too
//
//   Vote vote = ask_builds(reduction.minimal, reduction.verdict, open_build, calibration, options);
//   puts(words(vote).c_str());                 // "of 6 orders of threads 2 fail; tsan: race; ..."
//   if (vote.reduction) file(*vote.reduction, *vote.target);
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/check/check.h"

namespace attnfuzz {

// The kernel in another build; null if it does not have that build.
using OpenBuild = std::function<std::unique_ptr<Target>(const std::string& build_kind)>;

struct Vote {
  int orders = 0, failed = 0;  // random orders of threads; how many of them failed
  // For each build that ran the case: its name, and the kind of its failure or "passed".
  std::vector<std::pair<std::string, std::string>> build_kinds;
  std::string build_kind;              // the build that reduced it; empty: none
  std::unique_ptr<Target> target;      // the kernel in that build
  std::optional<Reduction> reduction;  // the reduction in that build
};

// True if other builds may show more about a failure: it was found on the CPU in a build without a
// sanitizer, and it is not a failure of plan(), a hang, `slow`, or a difference between oracles or
// bits.
bool more_to_see(const KernelInfo& kernel, const Verdict& verdict);

// `target` is the build that the case failed in. `options`: the reduction's.
Vote ask_builds(const Case& c, const Verdict& verdict, Target& target, const OpenBuild& open,
                const Calibration& calibration, const ReduceOptions& options);

std::string words(const Vote& vote);

}  // namespace attnfuzz
