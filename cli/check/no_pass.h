// Decides whether a check without a failure passes; if not, says why, and what to declare.
#pragma once

#include <string>
#include <vector>

#include "cli/check/check_kernel.h"

namespace attnfuzz {

// True if the property judged any case.
bool judged_by(const CheckResult& result, const Property& property);

// Measures the share of problems that an untrusted kernel takes, so that refusing is no way to pass. It must
// take nearly all of the caller's domain, or some of all problems if there is no domain. Returns a line for -v.
std::string measure_taken(Target& target, const CheckOptions& options, Checked& checked);

// Nobody vouches for an untrusted kernel: it must not pass by refusing what it would get wrong. Returns why a
// run that left out `left_out` of `of` calls does not pass; empty if it may pass. `what`: "cases".
std::string unvouched(const TargetOptions& target, uint64_t left_out, uint64_t of, const std::string& what);

// Fills checked.not_judged. `whole`: all properties took part.
void collect_not_judged(const CheckArguments& arguments, const CheckOptions& options, bool whole,
                        Checked& checked);

// If a kernel does not declare its arithmetic: tries whether its errors fit fp32, and finds the assumption that
// left cases unjudged and the words to declare. Returns lines for -v; empty if the kernel declares it, or is
// not asked.
std::string try_tighter(Target& target, const GeneratorConfig& config, const Calibration& calibration,
                        const CheckArguments& arguments, Checked& checked);

// Lines that say what to declare if the kernel does not promise to compute the reduced case right.
std::vector<std::string> advice_on(const Failure& failure, const Filed& filed);

}  // namespace attnfuzz
