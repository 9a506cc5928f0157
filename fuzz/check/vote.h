// A reduced failure asked again where more is seen than wrong numbers.
//
//   1. under several random orders of threads: if some fail and some hold it hangs on the order
//   2. in the builds with a sanitizer that the kernel has: asan, tsan, msan, msan-O0. The first that
//      reports something takes the failure over: it is reduced anew there, and what that ends with is the
//      failure's case and kind from then on. So a race is told as a race, a register that nobody wrote as
//      that, and a misaligned access, which x86 forgives, comes out
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

// The kernel in another build; null: it is not built for it.
using OpenBuild = std::function<std::unique_ptr<Target>(const std::string& build_kind)>;

struct Vote {
  int orders = 0, failed = 0;                              // random orders of threads, and how many failed
  std::vector<std::pair<std::string, std::string>> build_kinds;  // asked, and what came: a kind, or "passed"
  std::string build_kind;                                        // that took it over; empty: none
  std::unique_ptr<Target> target;                                // of that build
  std::optional<Reduction> reduction;                            // in that build
};

// True if other builds may show more: on the CPU, in a build without a sanitizer, of a failure of the kernel's
// run.
bool more_to_see(const KernelInfo& kernel, const Verdict& verdict);

// `target`: where it failed. `options`: of the reduction.
Vote ask_builds(const Case& c, const Verdict& verdict, Target& target, const OpenBuild& open,
                const Calibration& calibration, const ReduceOptions& options);

std::string words(const Vote& vote);

}  // namespace attnfuzz
